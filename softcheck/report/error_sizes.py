"""The size and the sign of the error that a finding shows: rounding, or terms that are missing?"""

import math
from collections.abc import Iterable

from softcheck.report.model import Finding

_BEYOND_ROUNDING = 4.0
"""Errors over their bounds that a step in a narrower type, or in an unlucky order, seldom reaches."""

_FAR = 64.0
"""Errors over their bounds that rounding to the input's 16 bits does not reach, if they are also of many ULPs."""
_FAR_ULPS = 16.0
"""ULPs that rounding to the input's 16 bits does not reach at the width where it first shows. In bfloat16 these are an eighth of the
value, and the probe's rows hide more than that in the columns at their ends."""
_FAR_SUM = 0.125
"""The deviation of a sum that such rounding does not reach."""

_MOST = 0.75
"""Share of the findings with a sign that must agree on it."""

_TOO_LARGE = frozenset({"softmax", "log_softmax"})
"""Operations whose answers grow where terms of the sum are left out."""

_TOO_SMALL = frozenset({"logsumexp", "cross_entropy", "attention_logsumexp"})
"""Operations whose answers shrink there."""


def may_be_rounding(finding: Finding) -> bool:
    """True if a finding shows an error that is so near to its bound that rounding alone may make it."""
    share = finding.facts.over_bound
    return share is not None and share < _BEYOND_ROUNDING


def is_far(finding: Finding) -> bool:
    """True if a finding shows an error that rounding to 16 bits does not make in the shortest row in which it shows."""
    facts = finding.facts
    if facts.over_bound is None or facts.over_bound < _FAR:
        return False
    return facts.ulps >= _FAR_ULPS if facts.ulps is not None else abs(facts.sum_off or 0.0) >= _FAR_SUM


def sums_too_small(findings: Iterable[Finding]) -> bool:
    """True if sums are known and most of them miss 1 by less than nothing, beyond rounding."""
    known = [(f, f.facts.sum_off) for f in findings if f.facts.sum_off is not None]
    return (
        bool(known)
        and sum(by < 0 for _, by in known) >= _MOST * len(known)
        and any(by < 0 and not may_be_rounding(f) for f, by in known)
    )


def as_of_left_out(findings: Iterable[Finding], limit: int, operation: str) -> bool | None:
    """True if answers err as they do where the columns from ``limit`` on take no part; None if nothing tells it.

    A softmax and its logarithm are then too large, a softmax perhaps 0 from that column on, and a sum's logarithm and a loss too
    small. Of other operations the sign tells nothing.
    """
    told = [agrees for f in findings if (agrees := _agrees(f, limit, operation)) is not None]
    return sum(told) >= _MOST * len(told) if told else None


def _agrees(finding: Finding, limit: int, operation: str) -> bool | None:
    if operation not in _TOO_LARGE | _TOO_SMALL:
        return None
    facts = finding.facts
    if facts.sum_off is not None:
        return facts.sum_off > 0
    output, expected = facts.output, facts.expected
    if output is None or expected is None or math.isnan(output) or math.isnan(expected):
        return None
    if operation in _TOO_SMALL:
        return output < expected
    return output > expected or (output == 0 and finding.column is not None and finding.column >= limit)
