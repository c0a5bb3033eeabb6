"""Draws the report model from searches for the worst row."""

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence

from softcheck.cases.case import Case
from softcheck.contract import FindingKind, Violation
from softcheck.judge.measurement import Extreme
from softcheck.report.environment import environment
from softcheck.report.findings import finding_of, witness_of
from softcheck.report.model import CaseResult, Finding, Report, SearchResult, VariantResult, Verdict, Witness
from softcheck.report.places import with_places
from softcheck.report.reproduce import add_command, bits_command
from softcheck.run.protocol import Ready
from softcheck.run.search import FAMILY, Row, SearchOutcome
from softcheck.search.objective import badness, extreme

TAG = "search"
"""Tag of inputs that are saved because they are the worst, broken promise or not."""


def build(
    outcomes: Sequence[SearchOutcome], ready: Ready, *, command: Sequence[str], refused: Mapping[tuple[str, str], str]
) -> Report:
    """The report of searches on one device.

    ``refused`` holds the reasons why a variant, named with the dtype, could not be judged.
    """
    rows = [
        VariantResult(name=name, dtype=dtype, verdict="error", reason=reason)
        for (name, dtype), reason in refused.items()
    ]
    return Report(
        environment=environment(ready, outcomes[0].options.seed if outcomes else 0, command),
        variants=with_places([*(_row(outcome, ready) for outcome in outcomes), *rows]),
        cases=tuple({row.case.id: _case(row) for outcome in outcomes for row in _rows(outcome)}.values()),
        searches=tuple(_search(outcome) for outcome in outcomes),
        notes=tuple(note for outcome in outcomes for note in _notes(outcome)),
        seconds=sum(outcome.seconds for outcome in outcomes),
    )


def kept(outcome: SearchOutcome) -> Case | None:
    """The case to save: the smaller input if there is one."""
    best = outcome.smaller or outcome.found
    return None if best is None else best.case


def origin(outcome: SearchOutcome) -> str:
    """Provenance of a saved case."""
    what = "error over bound" if outcome.options.objective == "bound" else "ULP error"
    return f"largest {what} that softcheck search found on {outcome.options.variant}"


def _rows(outcome: SearchOutcome) -> list[Row]:
    """Rows that were judged, the simplest first."""
    return [row for row in (outcome.smaller, outcome.found, outcome.random) if row is not None]


def _row(outcome: SearchOutcome, ready: Ready) -> VariantResult:
    options = outcome.options
    rows = _rows(outcome)
    findings = tuple(_findings(outcome, ready))
    verdict: Verdict = "fail" if any(f.known is None for f in findings) else "known" if findings else "pass"
    ulp = _largest((row.case, row.worse.max_ulp) for row in rows)
    share = _largest((row.case, row.worse.max_bound_share) for row in rows)
    return VariantResult(
        name=options.variant,
        dtype=options.dtype,
        verdict=verdict,
        cases_run=len(rows) or len(findings),
        elements=2 * outcome.elements,
        max_ulp=ulp[1].value if ulp else None,
        witness=_witness(*ulp, outcome) if ulp else None,
        max_ulp_ftz=max((row.worse.max_ulp_ftz or 0.0 for row in rows), default=None) if ulp else None,
        max_bound_share=share[1].value if share else None,
        findings=findings,
        seconds=outcome.seconds,
    )


def _largest(found: Iterator[tuple[Case, Extreme | None]]) -> tuple[Case, Extreme] | None:
    present = [(case, worst) for case, worst in found if worst is not None]
    return max(present, key=lambda pair: pair[1].value, default=None)


def _findings(outcome: SearchOutcome, ready: Ready) -> Iterator[Finding]:
    """One finding per kind, on the simplest input that shows it."""
    first: dict[FindingKind, tuple[Violation, Case | None]] = {}
    for row in _rows(outcome):
        alone = {violation.kind for violation in row.alone.violations}
        for violation in row.violations:
            first.setdefault(violation.kind, (violation, row.case if violation.kind in alone else None))
    for violation in outcome.violations:
        first.setdefault(violation.kind, (violation, None))
    return (_finding(outcome, violation, case, ready) for violation, case in first.values())


def _finding(outcome: SearchOutcome, violation: Violation, case: Case | None, ready: Ready) -> Finding:
    """A finding on a case, or on a launch of the search that no single row shows."""
    options = outcome.options
    case_id = f"{FAMILY}/search-{options.columns}-columns/{options.dtype}" if case is None else case.id
    return finding_of(
        violation,
        case_id,
        _again(outcome, ready) if case is None else add_command(options.variant, case),
        variant=options.variant,
        dtype=options.dtype,
        declaration=outcome.declaration,
        backend=ready.backend,
    )


def _again(outcome: SearchOutcome, ready: Ready) -> str:
    """The command that makes the same rounds again."""
    options = outcome.options
    # A round that ended the worker is not among those that were finished.
    rounds = outcome.rounds + (outcome.found is None)
    words = ["softcheck", "search", options.variant, "--dtype", options.dtype, "--columns", str(options.columns)]
    words += ["--objective", options.objective, "--rounds", str(rounds), "--rows", str(outcome.rows_per_launch)]
    return shlex.join([*words, "--seed", str(options.seed), "--device", ready.backend])


def _witness(case: Case, worst: Extreme, outcome: SearchOutcome) -> Witness:
    # In its case it is the only row, whatever it was in its launch.
    return witness_of(worst, case.id, case.bits()[0], case.format, outcome.declaration, number=0)


def _search(outcome: SearchOutcome) -> SearchResult:
    options, found, smaller = outcome.options, outcome.found, outcome.smaller
    worst = None if found is None else extreme(found.worse, options.objective)
    return SearchResult(
        name=options.variant,
        dtype=options.dtype,
        columns=options.columns,
        objective=options.objective,
        found=_figure(found, outcome),
        random=_figure(outcome.random, outcome),
        elements=outcome.elements,
        rounds=outcome.rounds,
        rows_per_launch=outcome.rows_per_launch,
        witness=_witness(found.case, worst, outcome) if found is not None and worst is not None else None,
        smaller=_figure(smaller, outcome),
        smaller_shape=None if smaller is None else smaller.case.shape,
        save=_save(outcome),
        seconds=outcome.seconds,
    )


def _figure(row: Row | None, outcome: SearchOutcome) -> float | None:
    if row is None:
        return None
    figure = row.figure(outcome.options.objective)
    return figure if figure >= 0 else None


def _save(outcome: SearchOutcome) -> str | None:
    """The command that adds the found row to the corpora, shrunk by the promise that it breaks, if any."""
    case = kept(outcome)
    if case is None:
        return None
    best = outcome.smaller or outcome.found
    if best is not None and best.alone.violations:
        return add_command(outcome.options.variant, case)
    bits = bits_command(outcome.options.variant, case.dtype, "; ".join(case.rows or ()))
    # corpus add would refuse to shrink by a promise that is kept.
    return shlex.join([*shlex.split(bits), "--no-shrink", "--tag", TAG, "--provenance", origin(outcome)])


def _notes(outcome: SearchOutcome) -> Iterator[str]:
    options, found = outcome.options, outcome.found
    if found is None:
        return
    alone, together = (badness(m, options.objective) for m in (found.alone, found.in_launch))
    if not math.isclose(alone, together, rel_tol=1e-9):
        yield (
            f"{options.variant} {options.dtype}: the row found shows {together:.6g} among the {outcome.rows_per_launch} rows "
            f"of its launch and {alone:.6g} alone: its answer depends on the shape or on other rows"
        )


def _case(row: Row) -> CaseResult:
    return CaseResult(
        id=row.case.id, family=FAMILY, shape=row.case.shape, rows_run=row.case.shape[0], definition=row.case
    )
