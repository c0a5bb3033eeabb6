"""Causes of rows of -inf alone, and of queries that see no key, that give numbers."""

import math
from collections.abc import Sequence

from softcheck.cases.case import Case
from softcheck.contract import FindingKind
from softcheck.report.evidence import Evidence, cause_of, is_wrong
from softcheck.report.logits import is_looked_at, row_peak
from softcheck.report.model import Cause, Finding

_LOW = -32.0
"""The highest number that is plausibly meant to stand for -inf: its exponential is 0 beside ordinary logits in 16 bits."""

_NEAR = 2.0**-6
"""Relative error within which an output is that of equal logits, whatever the format: twice bfloat16's spacing and some rounding."""


def of_masked_rows(evidence: Evidence) -> Cause | None:  # noqa: PLR0911 - one for each kind of evidence
    """Rows of -inf alone, or queries that see no key, that give numbers, where nothing else is wrong or the numbers tell why."""
    masked = [
        f
        for f in evidence.findings
        if f.kind is FindingKind.NAN_MISMATCH
        and f.facts.reason == "hidden_row"
        and f.facts.expected is not None
        and math.isnan(f.facts.expected)
    ]
    if not masked:
        return None
    others = [f for f in evidence.findings if is_wrong(f) and f not in masked]
    who = "queries that see no key" if all(f.facts.query is not None for f in masked) else "rows of -inf alone"
    if all(f.facts.output == 0 for f in masked):
        return cause_of(
            masked,
            f"{who} give 0 rather than NaN",
            mend="leave out the replacement of an empty sum or of a maximum of -inf",
            declare='fully_masked="zero"',
            right_on="rows that are not fully masked",
        )
    counted: list[Finding] = []
    if others and evidence.operation == "attention":
        # An answer outside of all values that a query sees holds some that are hidden from it.
        mixed = [f for f in others if f.kind is FindingKind.OUT_OF_RANGE]
        beside = {f.case for f in mixed}
        if not mixed or any(f.case not in beside for f in others):
            return None
        text = f"{who} give numbers rather than NaN, and other answers hold values of keys that are hidden"
        return cause_of([*masked, *others], f"{text}: what is hidden counts")
    if others:
        # Equal outputs are those of equal logits, which a finite number in place of -inf makes. A mask that is ignored or the wrong way
        # round shows what it hides, beside ordinary logits too.
        visible = [f for f in others if f.kind is FindingKind.MASKED_NOT_ZERO and f.case in evidence.cases]
        if not _are_equal(masked, evidence) or not all(_is_low(f, evidence.cases[f.case]) for f in visible):
            return None
        beside = {f.case for f in visible}
        counted = [f for f in others if f.case in beside]
        # Of a mask that is the wrong way round, rows without a hidden logit are NaN.
        if any(f.kind is FindingKind.NAN_MISMATCH for f in others if f not in counted):
            return None
    also = ", and beside logits as low" if counted else ""
    return cause_of(
        [*masked, *counted],
        f"{who} give numbers rather than NaN: a finite number stands for -inf, so that what is hidden counts there{also}",
        mend="fill what is hidden with -inf; or write zeros there, and declare fully_masked=zero",
    )


def _is_low(finding: Finding, case: Case) -> bool:
    """True if the logits of a finding's row are as low as a number that is to stand for -inf."""
    if finding.row is None or not is_looked_at(case):
        return False
    peak = row_peak(case, finding.row)
    return peak is None or peak <= _LOW


def _are_equal(findings: Sequence[Finding], evidence: Evidence) -> bool:
    """True if the outputs of all cases are those of a row of equal logits, and some row has two or more."""
    widths = [(f, evidence.cases[f.case].shape[1]) for f in findings if f.case in evidence.cases]
    return any(columns > 1 for _, columns in widths) and all(
        _is_of_equal_logits(f, columns, evidence.operation) for f, columns in widths
    )


def _is_of_equal_logits(finding: Finding, columns: int, operation: str) -> bool:
    expected = {"softmax": 1.0 / columns, "log_softmax": -math.log(columns)}.get(operation)
    output = finding.facts.output
    return expected is not None and output is not None and math.isclose(output, expected, rel_tol=_NEAR)
