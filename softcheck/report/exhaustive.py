"""Parts of the report model that are drawn from measurements of whole domains."""

from typing import Literal

import msgspec

from oracles.formats import bits_hex
from softcheck.cases.exhaustive import Domain
from softcheck.contract import Violation
from softcheck.report.figures import plural
from softcheck.report.findings import FindingSource, octaves, with_figures, witness_of
from softcheck.report.model import CaseResult, Exhaustive, Finding, VariantResult
from softcheck.report.reproduce import bits_command, command
from softcheck.run.exhaust import Exhausted
from softcheck.run.protocol import Ready


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
        witness = witness_of(worst, result.case_id, bits, result.domain.format, result.declaration)
    found = msgspec.structs.replace(row, cases_run=1, ulp_is=ulp_is, witness=witness)
    return with_figures(found, result.measurement)


def case_of(result: Exhausted) -> CaseResult:
    """The domain as a case."""
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
