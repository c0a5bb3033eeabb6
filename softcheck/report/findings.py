"""Contents of a report's rows, drawn from what a judge or a probe found: figures, findings, witnesses, shapes and places."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from oracles.formats import Bits, Format, bits_hex, decode
from softcheck.cases.case import Case
from softcheck.cases.exhaustive import Domain
from softcheck.contract import Violation
from softcheck.judge.histogram import BINS_PER_OCTAVE, Peak, column_below, distance_below, percentile, upper_edge
from softcheck.judge.measurement import Extreme, Measurement
from softcheck.operations.operation import Operation
from softcheck.probes.predicate import REFUSED, by_kind
from softcheck.report.content import groups_of
from softcheck.report.figures import plural
from softcheck.report.model import Bin, CaseResult, ErrorPeak, Exhaustive, Finding, PeerVerdict, VariantResult, Witness
from softcheck.report.reproduce import bits_command, command, finding_id, in_time
from softcheck.run.exhaust import Exhausted
from softcheck.run.patience import HANG_SECONDS
from softcheck.run.probing import ProbeResult
from softcheck.run.protocol import Ready
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
        """The finding that a violation on a case or in a trial is; with ``not_run``, of calls that were not made, which no declared defect explains."""
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
    worst: Extreme, case_id: str, row: Bits, fmt: Format, operation: Operation, declaration: Declaration
) -> Witness:
    """The element that shows a maximum, with the exact value at it; ``row`` holds the bit patterns of its row."""
    exact = operation.decimal(decode(row, fmt), worst.column, fmt, declaration.fully_masked)
    same = ("row", "column", "input_bits", "output_bits")
    return Witness(case=case_id, exact=exact, **{name: getattr(worst, name) for name in same})


_SAME = ("elements", "max_ulp_ftz", "max_standard_share", "max_sum_deviation", "max_abs_difference_to_torch")


def with_figures(result: VariantResult, m: Measurement) -> VariantResult:
    """The row with every figure of a measurement. A figure that was not measured is None, never 0."""
    judged = m.elements > 0
    p999 = percentile(m.histogram, 0.999)
    return msgspec.structs.replace(
        result,
        **{name: getattr(m, name) for name in _SAME},
        max_ulp=None if m.max_ulp is None else m.max_ulp.value,
        mean_ulp=m.ulp_sum / m.elements if judged else None,
        histogram=octaves(m.histogram),
        error_by_distance=_peaks(m.by_distance, distance_below),
        error_by_column=_peaks(m.by_column, column_below),
        # A bin's upper edge may lie above the maximum, which a percentile can't exceed.
        p999_ulp=None if p999 is None or m.max_ulp is None else min(p999, m.max_ulp.value),
        max_bound_share=None if m.max_bound_share is None else m.max_bound_share.value,
        flushed=m.flushed if judged else None,
        sum_violations=None if m.max_sum_deviation is None else m.sum_violations,
        special_mismatches=m.special_mismatches if m.special_rows else None,
        rejudged_rows=m.rejudged_rows if judged else None,
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
    """Shapes of cases, as far as their rows were run, and of trials over sizes and shapes; what ``is_limited`` is refused."""
    judged = [(m.rows, case.shape[1]) for case, m in measured]
    failing: dict[str, list[tuple[int, int]]] = {}
    for case, measurement in measured:
        for violation in measurement.violations:
            kind = REFUSED if is_limited(violation, case.id) else violation.kind
            failing.setdefault(kind, []).append((measurement.rows, case.shape[1]))
    for result in probed:
        limited = {
            shown.violation.kind
            for shown in result.conclusion.findings
            if is_limited(shown.violation, result.case_id(shown.label))
        }
        judged += result.conclusion.tried
        for kind, shapes in result.conclusion.failing.items():
            failing.setdefault(REFUSED if kind in limited else kind, []).extend(shapes)
    return by_kind(judged, failing.items())


def domain_findings(result: Exhausted, ready: Ready, *, of_row: bool) -> tuple[Finding, ...]:
    """Findings of one domain. The reproducing command saves the failing row (``of_row``), or runs the domain again."""
    source = FindingSource(result.variant, result.domain.dtype, result.declaration, ready.backend)
    run_again, left = _run_again(result, ready), result.left_out
    found = []
    for violation in result.measurement.violations:
        saves = of_row and violation.row is not None
        again = row_command(result.variant, result.domain, violation.row or 0) if saves else run_again
        found.append(source.finding(violation, result.case_id, again))
    if left is not None:
        words = f"given up: {left.over.why}; {left.parts} of {left.of} parts were not run, {left.rows:,} rows, row "
        words += f"{left.first_row} the first; expected an output of each"
        violation = Violation(left.over.kind, words, left.parts)
        found.append(source.finding(violation, result.case_id, run_again, not_run=True))
    return tuple(sorted(found, key=lambda f: f.known is not None))


def _is_complete(result: Exhausted) -> bool:
    return result.domain.is_complete and result.left_out is None and result.ended is None


def _described(result: Exhausted) -> str:
    words = [result.domain.describe()]
    left = result.left_out
    if left is not None:
        words.append(f"{left.parts} of {left.of} parts left out ({left.over.why})")
    if result.ended is not None:
        words.append(f"ended after {plural(result.ended.parts, 'part')}")
    return ", ".join(words)


def _ulp_is(result: Exhausted) -> Literal["exact", "at least"]:
    """The maximum found is the maximum there is only where every row gave an output that was judged."""
    unjudged = any(violation.row is None for violation in result.measurement.violations)
    return "exact" if _is_complete(result) and not unjudged else "at least"


def _run_again(result: Exhausted, ready: Ready) -> str:
    judged = result.domain
    return command(
        "exhaust",
        result.variant,
        dtype=judged.dtype,
        columns=judged.columns,
        differences=judged.kind == "differences",
        any_order=judged.kind == "ascending",
        sample_first=judged.first if judged.first < judged.total else None,
        device=ready.backend,
    )


def row_command(variant: str, judged: Domain, row: int) -> str:
    """The command that saves one row of a domain as a regression of a variant."""
    bits = " ".join(bits_hex(int(b), judged.format) for b in judged.bits(row, 1)[0])
    return bits_command(variant, judged.dtype, bits)


def with_domain(row: VariantResult, result: Exhausted) -> VariantResult:
    """The row with the figures of a domain, whose one case it is."""
    worst, ulp_is, witness = result.measurement.max_ulp, _ulp_is(result), None
    if worst is not None:
        bits = result.domain.bits(worst.row, 1)[0]
        declared = result.declaration
        witness = witness_of(worst, result.case_id, bits, result.domain.format, declared.computed, declared)
    found = msgspec.structs.replace(row, cases_run=1, ulp_is=ulp_is, witness=witness)
    return with_figures(found, result.measurement)


def domain_case(result: Exhausted) -> CaseResult:
    """The domain as a case."""
    shape = (result.domain.total, result.domain.columns)
    return CaseResult(id=result.case_id, family="exhaustive", shape=shape, rows_run=result.measurement.rows)


def whole_set(result: Exhausted) -> Exhaustive:
    """Returns the details behind the figures of one domain."""
    m = result.measurement
    return Exhaustive(
        name=result.variant,
        dtype=result.domain.dtype,
        domain=_described(result),
        is_complete=_is_complete(result),
        max_ulp=m.max_ulp.value if m.max_ulp else None,
        ulp_is=_ulp_is(result),
        rows=m.rows,
        ordinary_rows=m.rows - m.unjudged_rows - m.special_rows,
        nan_rows=m.special_rows - m.fully_masked_rows,
        fully_masked_rows=m.fully_masked_rows,
        unjudged_rows=m.unjudged_rows,
        histogram=octaves(m.histogram),
        rows_per_second=result.rows_per_second,
        judged_in=m.judged_in,
    )
