"""Draws the report model from exhaustive measurements."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from oracles import ball
from oracles.formats import bits_hex, decode
from softcheck.cases.exhaustive import Domain
from softcheck.contract import Violation
from softcheck.judge.measurement import Extreme, Measurement
from softcheck.report.bins import octaves
from softcheck.report.build import environment, percentile_of
from softcheck.report.model import CaseResult, Exhaustive, Finding, Report, VariantResult, Verdict, Witness
from softcheck.report.reproduce import bits_command, finding_id
from softcheck.run.check import explanation
from softcheck.run.protocol import Ready
from softcheck.variants.declaration import Declaration


@dataclass(frozen=True, slots=True)
class Exhausted:
    """One variant judged on one domain."""

    variant: str
    declaration: Declaration
    domain: Domain
    measurement: Measurement
    seconds: float

    @property
    def case_id(self) -> str:
        """The domain's name, in the form of a case's id."""
        return f"exhaustive/{self.domain.kind}-of-{self.domain.columns}/{self.domain.dtype}"


def build(results: Sequence[Exhausted], ready: Ready, *, command: Sequence[str], notes: Sequence[str]) -> Report:
    """The report of exhaustive runs on one device."""
    return Report(
        environment=environment(ready, 0, command),
        variants=tuple(_row(result, ready) for result in results),
        cases=tuple({r.case_id: _case(r) for r in results}.values()),
        exhaustive=tuple(_behind(result) for result in results),
        notes=tuple(notes),
        seconds=sum(result.seconds for result in results),
    )


def _row(result: Exhausted, ready: Ready) -> VariantResult:
    m = result.measurement
    findings = tuple(_finding(result, violation, ready) for violation in m.violations)
    verdict: Verdict = "fail" if any(f.known is None for f in findings) else "known" if findings else "pass"
    return VariantResult(
        name=result.variant,
        dtype=result.domain.dtype,
        verdict=verdict,
        cases_run=1,
        elements=m.elements,
        max_ulp=m.max_ulp.value if m.max_ulp else None,
        mean_ulp=m.ulp_sum / m.elements if m.elements else None,
        histogram=octaves(m.histogram),
        p999_ulp=percentile_of(m.histogram, m.max_ulp),
        ulp_is="exact" if result.domain.is_complete and not _unjudged(m) else "at least",
        witness=_witness(result, m.max_ulp) if m.max_ulp else None,
        max_ulp_ftz=m.max_ulp_ftz,
        max_bound_share=m.max_bound_share.value if m.max_bound_share else None,
        flushed=m.flushed if m.elements else None,
        max_sum_deviation=m.max_sum_deviation,
        sum_violations=m.sum_violations if m.max_sum_deviation is not None else None,
        special_mismatches=m.special_mismatches if m.special_rows else None,
        rejudged_rows=m.rejudged_rows if m.elements else None,
        findings=findings,
        seconds=result.seconds,
    )


def _finding(result: Exhausted, violation: Violation, ready: Ready) -> Finding:
    dtype = result.domain.dtype
    return Finding(
        id=finding_id(result.variant, dtype, violation.kind, result.case_id),
        kind=violation.kind,
        case=result.case_id,
        message=violation.message,
        reproduce=_reproduce(result, violation, ready),
        count=violation.count,
        row=violation.row,
        column=violation.column,
        input_bits=violation.input_bits,
        output_bits=violation.output_bits,
        known=explanation(violation, result.case_id, dtype, result.declaration, ready.backend),
    )


def _unjudged(measurement: Measurement) -> bool:
    """Whether a part gave no output to judge, so that the maximum found need not be the maximum."""
    return any(violation.row is None for violation in measurement.violations)


def _reproduce(result: Exhausted, violation: Violation, ready: Ready) -> str:
    """The command that saves the failing row, or where no row is known the one that runs the domain again."""
    judged = result.domain
    if violation.row is not None:
        return bits_command(result.variant, judged.dtype, _row_bits(result, violation.row))
    words = ["softcheck", "exhaust", result.variant, "--dtype", judged.dtype, "--columns", str(judged.columns)]
    if judged.kind == "differences":
        words.append("--differences")
    if judged.first < judged.total:
        words += ["--sample-first", str(judged.first)]
    return shlex.join([*words, "--device", ready.backend])


def _row_bits(result: Exhausted, row: int) -> str:
    return " ".join(bits_hex(int(b), result.domain.format) for b in result.domain.bits(row, 1)[0])


def _witness(result: Exhausted, extreme: Extreme) -> Witness:
    return Witness(
        case=result.case_id,
        row=extreme.row,
        column=extreme.column,
        # The whole row: its number alone would tell a reader nothing.
        input_bits=extreme.input_bits,
        output_bits=extreme.output_bits,
        exact=ball.decimal(
            decode(result.domain.bits(extreme.row, 1)[0], result.domain.format),
            extreme.column,
            fully_masked=result.declaration.fully_masked,
        ),
    )


def _case(result: Exhausted) -> CaseResult:
    shape = (result.domain.total, result.domain.columns)
    return CaseResult(id=result.case_id, family="exhaustive", shape=shape, rows_run=result.measurement.rows)


def _behind(result: Exhausted) -> Exhaustive:
    m = result.measurement
    return Exhaustive(
        name=result.variant,
        dtype=result.domain.dtype,
        domain=result.domain.describe(),
        is_complete=result.domain.is_complete,
        rows=m.rows,
        ordinary_rows=m.rows - m.special_rows,
        nan_rows=m.special_rows - m.fully_masked_rows,
        fully_masked_rows=m.fully_masked_rows,
        histogram=octaves(m.histogram),
        rows_per_second=m.rows / result.seconds if result.seconds else 0.0,
    )
