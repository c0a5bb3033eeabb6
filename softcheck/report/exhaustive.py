"""Draws the report model from exhaustive measurements."""

import shlex
from collections.abc import Sequence
from typing import Literal

from oracles.formats import bits_hex
from softcheck.cases.exhaustive import Domain
from softcheck.contract import Violation
from softcheck.judge.measurement import Extreme
from softcheck.report.figures import plural
from softcheck.report.findings import FindingSource, octaves, with_figures, with_places, witness_of
from softcheck.report.model import CaseResult, Exhaustive, Finding, Report, VariantResult, Verdict, Witness
from softcheck.report.reproduce import bits_command, environment
from softcheck.run.exhaust import Exhausted
from softcheck.run.protocol import Ready


def build(results: Sequence[Exhausted], ready: Ready, *, command: Sequence[str], notes: Sequence[str]) -> Report:
    """The report of exhaustive runs on one device."""
    run = [result for result in results if result.refused is None]
    return Report(
        environment=environment(ready, 0, command),
        variants=with_places(_row(result, ready) for result in results),
        cases=tuple({r.case_id: _case(r) for r in run}.values()),
        exhaustive=tuple(behind(result) for result in run),
        notes=tuple(notes),
        seconds=sum(result.seconds for result in results),
    )


def _row(result: Exhausted, ready: Ready) -> VariantResult:
    if result.refused is not None:
        reason = f"not run: {result.refused}"
        return VariantResult(name=result.variant, dtype=result.domain.dtype, verdict="unsupported", reason=reason)
    m = result.measurement
    found = findings(result, ready, of_row=True)
    verdict: Verdict = "fail" if any(f.known is None for f in found) else "known" if found else "pass"
    row = VariantResult(
        name=result.variant,
        dtype=result.domain.dtype,
        verdict=verdict,
        operation=result.declaration.operation,
        cases_run=1,
        ulp_is=_ulp_is(result),
        witness=_witness(result, m.max_ulp) if m.max_ulp else None,
        findings=found,
        seconds=result.seconds,
    )
    return with_figures(row, m)


def findings(result: Exhausted, ready: Ready, *, of_row: bool) -> tuple[Finding, ...]:
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
    words = ["softcheck", "exhaust", result.variant, "--dtype", judged.dtype, "--columns", str(judged.columns)]
    if judged.kind == "differences":
        words.append("--differences")
    if judged.kind == "ascending":
        words.append("--any-order")
    if judged.first < judged.total:
        words += ["--sample-first", str(judged.first)]
    return shlex.join([*words, "--device", ready.backend])


def row_command(variant: str, judged: Domain, row: int) -> str:
    """The command that saves one row of a domain as a regression of a variant."""
    bits = " ".join(bits_hex(int(b), judged.format) for b in judged.bits(row, 1)[0])
    return bits_command(variant, judged.dtype, bits)


def _witness(result: Exhausted, extreme: Extreme) -> Witness:
    row = result.domain.bits(extreme.row, 1)[0]
    return witness_of(extreme, result.case_id, row, result.domain.format, result.declaration)


def _case(result: Exhausted) -> CaseResult:
    shape = (result.domain.total, result.domain.columns)
    return CaseResult(id=result.case_id, family="exhaustive", shape=shape, rows_run=result.measurement.rows)


def behind(result: Exhausted) -> Exhaustive:
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
