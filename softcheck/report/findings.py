"""Contents of a report's rows, drawn from what a judge or a probe found: figures, findings, witnesses, shapes and places."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from oracles.formats import Bits, Format, decode
from softcheck.cases.case import Case
from softcheck.contract import Violation
from softcheck.judge.histogram import BINS_PER_OCTAVE, Peak, column_below, distance_below, percentile, upper_edge
from softcheck.judge.measurement import Extreme, Measurement
from softcheck.operations.operation import Operation
from softcheck.probes.judged_shapes import REFUSED, by_kind, together
from softcheck.report.content import groups_of
from softcheck.report.model import Bin, ErrorPeak, Finding, PeerVerdict, VariantResult, Witness
from softcheck.report.reproduce import finding_id, in_time
from softcheck.run.patience import HANG_SECONDS
from softcheck.run.probing import ProbeResult
from softcheck.variants.declaration import Backend, Declaration
from softcheck.variants.place import place_of


class FindingSource(NamedTuple):
    """Whose findings are drawn: a variant in one dtype, by what it declares, on a backend."""

    variant: str
    dtype: str
    declaration: Declaration
    backend: Backend
    seconds_per_call: float = HANG_SECONDS

    def finding(
        self, violation: Violation, case_id: str, again: str, *, save: str | None = None, not_run: bool = False
    ) -> Finding:
        """The finding that a violation on a case, or in a probe's trial, is.

        ``again`` is the command that shows it, ``save`` the command that keeps its row, if there is one. With ``not_run`` it stands
        for calls that were not made: no declared defect explains these, since they show nothing.
        """
        same = ("kind", "message", "count", "row", "column", "input_bits", "output_bits", "around", "share", "facts")
        known = None
        if not not_run:
            known = self.declaration.explanation(violation, case_id, self.dtype, self.backend)
        named = f"not run: {case_id}" if not_run else case_id
        return Finding(
            id=finding_id(self.variant, self.dtype, violation.kind, named),
            case=case_id,
            reproduce=in_time(again, violation.kind, self.seconds_per_call),
            known=known,
            save=save,
            **{name: getattr(violation, name) for name in same},
        )


def without_repetition(result: VariantResult) -> VariantResult:
    """The row with the elements around a witness in the first finding alone of each group, and of each kind and probe."""
    groups = [group for known in (True, False) for group in groups_of(result, known=known)]
    kept = {group.first.id for group in groups}
    kept |= {f.id for f in {(f.kind, f.known, f.probe): f for f in reversed(result.findings)}.values()}
    findings = (f if f.id in kept else msgspec.structs.replace(f, around=None) for f in result.findings)
    return msgspec.structs.replace(result, findings=tuple(findings))


def witness_of(
    worst: Extreme,
    case_id: str,
    row: Bits,
    fmt: Format,
    declaration: Declaration,
    *,
    number: int | None = None,
    operation: Operation | None = None,
) -> Witness:
    """The element that shows a maximum, with the exact value at it.

    ``row`` holds the bit patterns of its row, [columns], and ``number`` the row's number if it is not ``worst.row``.
    ``operation`` is the declaration's with what the case names of this row, if it names anything.
    """
    return Witness(
        case=case_id,
        row=worst.row if number is None else number,
        column=worst.column,
        input_bits=worst.input_bits,
        output_bits=worst.output_bits,
        exact=(operation or declaration.computed).decimal(
            decode(row, fmt), worst.column, fmt, declaration.fully_masked
        ),
    )


def with_figures(result: VariantResult, m: Measurement) -> VariantResult:
    """The row with every figure of a measurement. A figure that was not measured is None, never 0."""
    judged = m.elements > 0
    p999 = percentile(m.histogram, 0.999)
    return msgspec.structs.replace(
        result,
        elements=m.elements,
        max_ulp=None if m.max_ulp is None else m.max_ulp.value,
        mean_ulp=m.ulp_sum / m.elements if judged else None,
        histogram=octaves(m.histogram),
        error_by_distance=_peaks(m.by_distance, distance_below),
        error_by_column=_peaks(m.by_column, column_below),
        # A bin's upper edge may lie above the maximum, which a percentile can't exceed.
        p999_ulp=None if p999 is None or m.max_ulp is None else min(p999, m.max_ulp.value),
        max_ulp_ftz=m.max_ulp_ftz,
        max_bound_share=None if m.max_bound_share is None else m.max_bound_share.value,
        max_standard_share=m.max_standard_share,
        flushed=m.flushed if judged else None,
        max_sum_deviation=m.max_sum_deviation,
        sum_violations=None if m.max_sum_deviation is None else m.sum_violations,
        special_mismatches=m.special_mismatches if m.special_rows else None,
        rejudged_rows=m.rejudged_rows if judged else None,
        max_abs_difference_to_torch=m.max_abs_difference_to_torch,
        peers=tuple(PeerVerdict(rule=name, cases=cases, refused=no) for name, (cases, no) in m.peers.items()),
    )


def octaves(histogram: Mapping[int, int]) -> tuple[Bin, ...]:
    """The judge's fine bins joined to one per octave."""
    joined: dict[int, int] = {}
    for b, elements in sorted(histogram.items()):
        last = BINS_PER_OCTAVE * -(-b // BINS_PER_OCTAVE)
        joined[last] = joined.get(last, 0) + elements
    return tuple(Bin(below=upper_edge(b), elements=elements) for b, elements in joined.items())


def _peaks(found: Mapping[int, Peak], below: Callable[[int], float | None]) -> tuple[ErrorPeak, ...]:
    return tuple(
        ErrorPeak(below=below(b), ulp=_short(ulp), bound=_short(bound), share=_short(share))
        for b, (ulp, bound, share) in found.items()
    )


def _short(value: float) -> float:
    """The number to six significant digits: more would make up a tenth of the JSON."""
    return float(f"{value:.6g}")


def with_places(rows: Iterable[VariantResult]) -> tuple[VariantResult, ...]:
    """The rows, each with the line at which the variant's code begins."""
    found = list(rows)
    places = {name: place_of(name) for name in dict.fromkeys(row.name for row in found)}
    return tuple(msgspec.structs.replace(row, place=places[row.name]) for row in found)


def shapes_of(
    measured: Sequence[tuple[Case, Measurement]],
    probed: Iterable[ProbeResult],
    is_limited: Callable[[Violation, str], bool],
) -> dict[str, str]:
    """Shapes of cases, as far as their rows were run, and of trials over sizes and shapes.

    A violation of a case id, or a probe's, that ``is_limited`` is a refusal beyond a limit of sizes.
    """
    failing: dict[str, list[tuple[int, int]]] = {}
    for case, measurement in measured:
        for violation in measurement.violations:
            kind = REFUSED if is_limited(violation, case.id) else violation.kind
            failing.setdefault(kind, []).append((measurement.rows, case.shape[1]))
    parts = [by_kind(((m.rows, case.shape[1]) for case, m in measured), failing.items())]
    for result in probed:
        limited = {
            shown.violation.kind
            for shown in result.conclusion.findings
            if is_limited(shown.violation, result.case_id(shown.label))
        }
        of_probe = result.conclusion.judged_shapes.items()
        parts += [{REFUSED if kind in limited else kind: text} for kind, text in of_probe]
    return together(parts)
