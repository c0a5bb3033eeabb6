"""Remarks in a report beside its figures, and limits of sizes: those that a variant refuses, and those too wide to compile."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from softcheck.cases.case import Case
from softcheck.contract import BOUNDED_KINDS, WRONG_KINDS, FindingKind, Violation
from softcheck.judge.contracts import in_words, weaker_by_design
from softcheck.judge.measurement import Measurement, merge
from softcheck.operations.arithmetic import Arithmetic
from softcheck.probes.outcome import Coverage
from softcheck.report import probes
from softcheck.report.evidence import is_looked_at, largest_size
from softcheck.report.figures import alike, plural
from softcheck.report.findings import FindingSource
from softcheck.report.model import Finding, VariantResult
from softcheck.report.reproduce import command, reproduce_command
from softcheck.run.model import Run
from softcheck.run.probing import ProbeResult
from softcheck.run.session import CaseMeasurement
from softcheck.run.size_limits import SizeLimit, size_limits
from softcheck.run.widths import WidthLimit
from softcheck.toolchain.ptx import contradictions
from softcheck.variants.builtin.declarations import DECLARED
from softcheck.variants.declaration import Declaration, KnownDefect
from softcheck.variants.recognised import Recognised

_MOST_SAID = 3
"""Variants whose lines are counted in a note."""

Measured = Sequence[tuple[Case, Measurement]]


def of_run(run: Run, rows: Sequence[VariantResult], of_rows: Iterable[tuple[str, str]]) -> list[str]:
    """All notes of a run; ``of_rows`` are those of single variants in single dtypes, each with its subject."""
    cut = {r.case.id for r in run.results if r.measurement.skipped is None and 0 < r.measurement.rows < r.case.shape[0]}
    return [
        *(
            [f"{len(cut)} cases were cut to their first rows under the interpreter; a GPU runs them whole"]
            if cut
            else []
        ),
        *_unable(run),
        *run.notes,
        *run.untimed,
        *alike(of_rows, 1),
        *never_run(rows),
        *_symptoms(run, rows),
        *probes.skip_notes(run),
        *_not_timed(run),
    ]


def calls(facts: Mapping[str, Recognised]) -> tuple[str, ...]:
    """One line per variant that is not built-in: how it is called, and what it is judged as."""
    return tuple(f"{name}: {it.in_words()}" for name, it in facts.items() if name.partition("@")[0] not in DECLARED)


def never_run(rows: Sequence[VariantResult]) -> list[str]:
    """One line on the lines of each variant's own code that no counted call ran; the JSON and the page name them."""
    found = {row.name: c for row in rows if (c := row.coverage) is not None and (c.never or c.one_sided)}
    if not found:
        return []
    said = [f"{name} {c.run} of {c.lines}" for name, c in found.items()]
    is_all = all(c.of_all_calls for c in found.values())
    calls = "calls" if is_all else "the probe regimes"
    more = f" and {len(said) - _MOST_SAID} more variants" if len(said) > _MOST_SAID else ""
    return [f"lines of own code that {calls} ran: {', '.join(said[:_MOST_SAID])}{more}; see --format json"]


def too_little_coverage(coverage: Coverage | None, required: float) -> str:
    """Says that fewer lines were run than ``--require-coverage`` asks for, and what to do about it."""
    if coverage is None:
        return f"--require-coverage {required:g}: no lines were counted; run the probe regimes"
    return (
        f"{coverage.percent:.1f} % of the lines of its own code were run, expected {required:g} % "
        f"(--require-coverage); softcheck regimes names the others, which no input leads to"
    )


def unseen_defect(defect: KnownDefect) -> str:
    """Says that a declared defect did not show, and what to do about it."""
    what = f"declares a defect that was not found ({', '.join(defect.kinds)} on {', '.join(defect.cases)}: {defect.reason})"
    if not defect.always:
        return f"{what}, which need not show everywhere"
    return (
        f"{what}; remove it from the declaration if it is fixed, or declare always=False if it need not show everywhere"
    )


def fitting_arithmetic(
    measured: Measured, probed: Sequence[ProbeResult], declaration: Declaration, dtype: str
) -> Arithmetic | None:
    """Returns an arithmetic that explains all errors beyond the standard contract; None if one is declared, or none explains them."""
    if declaration.arithmetic is not None or not measured:
        return None
    fits = merge(m for _, m in measured).fits or ()
    read = probes.arithmetic_of(probed)
    if read is not None and read.observed is not None:
        observed = read.observed
        fits = tuple(a for a in fits if not contradictions(a, observed, dtype))
    # One that rounds the logits themselves allows any answer where they are large enough.
    growing = [a for a in fits if a.scaled_logits or a.exp == "prescaled_ex2_approx"]
    return next((a for a in fits if a not in growing or _tells_of_logits(measured, dtype)), None)


def _tells_of_logits(measured: Measured, dtype: str) -> bool:
    """True if some wrong case has no logits so large that their rounding to the type that computes may be 1, which explains any answer."""
    vacuous = 2.0**53 if dtype == "float64" else 2.0**24
    wrong = [case for case, m in measured if any(v.kind in BOUNDED_KINDS for v in m.violations)]
    return any(not is_looked_at(case) or largest_size(case) < vacuous for case in wrong)


def fitting_declaration(arithmetic: Arithmetic | None) -> str | None:
    """Names the declaration of an arithmetic that explains all errors beyond the standard contract; None if there is none."""
    if arithmetic is None:
        return None
    return (
        "all errors beyond the standard contract in cases are within what a weaker one allows; if that is what the kernel is "
        f"meant to do, declare it: @variant({in_words(arithmetic)})"
    )


def beyond_the_standard(measured: Measured, declaration: Declaration, dtype: str) -> str | None:
    """Says how far a variant that declares nothing weaker goes beyond the standard contract where it keeps its own, and why it may."""
    if weaker_by_design(declaration.arithmetic, dtype) is not None:
        return None
    shares = [
        (m.max_standard_share, case.id, m.contract)
        for case, m in measured
        if m.max_standard_share is not None and not any(v.kind in WRONG_KINDS for v in m.violations)
    ]
    beyond = [(share, case_id, contract) for share, case_id, contract in shares if share > 1 and contract is not None]
    if not beyond:
        return None
    share, case_id, contract = max(beyond, key=lambda item: item[0])
    why = (
        "its kernels rescale a running sum"
        if contract.rescales
        else "no Triton kernel took the sum, and a library on a CPU may add up a row one number after the other"
    )
    return f"beyond the standard contract in {plural(len(beyond), 'case')}, {share:.3g} times its bound on {case_id}: {why}"


def _not_timed(run: Run) -> list[str]:
    return [
        f"{timed.name}, {samples.dtype}: not timed: {timed.reason}"
        for samples in run.speeds
        for timed in samples.variants
        if timed.reason is not None
    ] + [f"{samples.dtype} timing: {alarm.message}" for samples in run.speeds for alarm in samples.alarms]


def _symptoms(run: Run, rows: Sequence[VariantResult]) -> list[str]:
    """One line per variant and dtype whose writes out of bounds ended processes."""
    named = {
        (row.name, row.dtype): finding
        for row in rows
        for finding in reversed(row.findings)
        if finding.kind is FindingKind.OUT_OF_BOUNDS_WRITE
    }
    return [
        f"{blame.variant}, {blame.dtype}: {blame.crashes} process{'' if blame.crashes == 1 else 'es'} ended in calls that pass "
        f"alone; that is what the out_of_bounds_write at {named[blame.variant, blame.dtype].case} does"
        for blame in run.blames
        if (blame.variant, blame.dtype) in named
    ]


def _unable(run: Run) -> list[str]:
    """One line per variant, dtype and reason for the cases that it could not be run on here."""
    counts = Counter(
        (r.variant, r.case.dtype, r.measurement.skipped) for r in run.results if r.measurement.skipped is not None
    )
    return [f"{name}, {dtype}: {count} cases not run: {why}" for (name, dtype, why), count in counts.items()]


class SizeLimits:
    """Limits of one variant in one dtype; a size that a declared defect explains, or that is promised, is a finding and no limit."""

    def __init__(
        self, run: Run, source: FindingSource, results: Sequence[CaseMeasurement], probed: Sequence[ProbeResult]
    ) -> None:
        self._options = run.options
        self._source = source
        own = (source.variant, source.dtype)
        self._uncompiled: list[WidthLimit] = [w for w in run.width_limits if (w.variant, w.dtype) == own]
        self._too_wide = [
            result.case
            for result in results
            if any(result.case.shape[1] > limit.holds_to for limit in self._uncompiled)
            and result.measurement.skipped is not None
        ]
        self._refused: dict[SizeLimit, list[Case]] = {
            limit: [r.case for r in results if any(map(limit.covers, r.measurement.violations))]
            for limit in size_limits(results, probed)
        }

    def cover(self, violation: Violation, case_id: str) -> bool:
        """True if a broken promise is a limit's, and no declared defect's."""
        source = self._source
        reason = source.declaration.explanation(violation, case_id, source.dtype, source.backend)
        return reason is None and any(limit.covers(violation) for limit in self._refused)

    @property
    def holds(self) -> str | None:
        """Words for the size up to which the verdict holds, with the reason, for the verdict's line."""
        said = [f"to {limit.holds_to} columns; {limit}" for limit in self._uncompiled]
        sizes = [limit for limit in self._refused if limit.measure is not None]
        said += [f"to {limit.answered} {limit.measure}; {limit.refused} are refused" for limit in sizes]
        if len(sizes) < len(self._refused):
            said.append("where there are elements; inputs without any are refused")
        return "; ".join(said) or None

    def notes(self) -> list[str]:
        """One sentence for each limit."""
        budget = self._options.compile_seconds
        said = [
            f"judged to {w.holds_to} columns: {w}, more than --compile-seconds {budget:g}" for w in self._uncompiled
        ]
        for limit, cases in self._refused.items():
            said.append(f"{limit.words}{f' ({len(cases)} cases, {cases[0].id} the first)' if cases else ''}")
        return said

    def findings(self) -> list[Finding]:
        """Returns the limits as findings, one each, if every size is promised."""
        if not self._options.require_all_sizes:
            return []
        found = [self._finding(limit.kind, limit.words, cases) for limit, cases in self._refused.items()]
        for w in self._uncompiled:
            words = (
                f"not judged beyond {w.holds_to} columns: {w}; expected an output, which --require-all-sizes promises"
            )
            found.append(self._finding(FindingKind.SIZE_REFUSED, words, self._too_wide))
        return found

    def _finding(self, kind: FindingKind, message: str, cases: Sequence[Case]) -> Finding:
        variant, dtype, _, backend, _ = self._source
        if cases:
            smallest = min(cases, key=lambda case: (case.shape[0] * case.shape[1], case.id))
            shown, again = smallest.id, reproduce_command(variant, smallest, backend, ())
        else:
            probe = "empties" if kind is FindingKind.EMPTY_REFUSED else "sizes"
            shown = f"probe/{probe}"
            again = command("report", variant=variant, dtype=dtype, probe=probe, device=backend)
        # No declared defect explains a size that is promised.
        violation, source = (
            Violation(kind, message, max(1, len(cases))),
            self._source._replace(declaration=Declaration()),
        )
        return source.finding(violation, shown, f"{again} --require-all-sizes")
