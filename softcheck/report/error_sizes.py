"""The size and the sign of the error that a finding's message tells: rounding, or terms that are missing?"""

import re
from collections.abc import Iterable

from softcheck.report.model import Finding

_NUMBER = r"[+-]?(?:[\d.]+(?:e[+-]?\d+)?|inf|nan)"
_ULPS = re.compile(rf"({_NUMBER}) ULP, bound ({_NUMBER}) ULP")
_SUM = re.compile(rf"misses 1 by ({_NUMBER})(?:.*?expected at most ({_NUMBER}))?")
_VALUES = re.compile(rf"output ({_NUMBER})\b.*?expected ({_NUMBER})\b")

_BEYOND_ROUNDING = 4.0
"""Errors over their bounds that a step in a narrower type, or in an unlucky order, seldom reaches."""

_FAR = 64.0
"""Errors over their bounds, and"""
_FAR_ULPS = 16.0
"""ULPs that rounding to the input's 16 bits does not reach at the width where it first shows. In bfloat16 these are an eighth of the
value, and the probe's rows hide more than that in the columns at their ends."""
_FAR_SUM = 0.125
"""The same of a sum."""

_MOST = 0.75
"""Share of the findings with a sign that must agree on it."""

_TOO_LARGE = frozenset({"softmax", "log_softmax"})
"""Operations whose answers grow where terms of the sum are left out."""

_TOO_SMALL = frozenset({"logsumexp", "cross_entropy", "attention_logsumexp"})
"""Operations whose answers shrink there."""


def over_bound(finding: Finding) -> float | None:
    """Returns the witness's error over its bound, or a sum's deviation over what is allowed; None if the message tells no such figures."""
    if (found := _ULPS.search(finding.message)) is not None:
        return float(found[1]) / float(found[2])
    if (found := _SUM.search(finding.message)) is not None and found[2] is not None:
        return abs(float(found[1])) / float(found[2])
    return None


def may_be_rounding(finding: Finding) -> bool:
    """True if a finding tells an error that is so near to its bound that rounding alone may make it."""
    share = over_bound(finding)
    return share is not None and share < _BEYOND_ROUNDING


def is_far(finding: Finding) -> bool:
    """True if a finding tells an error that rounding to 16 bits does not make in the shortest row in which it shows."""
    share = over_bound(finding)
    if share is None or share < _FAR:
        return False
    ulps, missed = _ULPS.search(finding.message), _SUM.search(finding.message)
    return float(ulps[1]) >= _FAR_ULPS if ulps else missed is not None and abs(float(missed[1])) >= _FAR_SUM


def sums_too_small(findings: Iterable[Finding]) -> bool:
    """True if sums are told and most of them miss 1 by less than nothing, beyond rounding."""
    told = [(f, float(found[1])) for f in findings if (found := _SUM.search(f.message)) is not None]
    return (
        bool(told)
        and sum(by < 0 for _, by in told) >= _MOST * len(told)
        and any(by < 0 and not may_be_rounding(f) for f, by in told)
    )


def as_of_left_out(findings: Iterable[Finding], limit: int, operation: str) -> bool:
    """True if answers err as they do where the columns from ``limit`` on take no part, or if there is nothing that tells it.

    A softmax and its logarithm are then too large, a softmax perhaps 0 from that column on, and a sum's logarithm and a loss too
    small. Of other operations the sign tells nothing.
    """
    told = [agrees for f in findings if (agrees := _agrees(f, limit, operation)) is not None]
    return sum(told) >= _MOST * len(told)


def has_sign(operation: str) -> bool:
    """True for an operation whose answers all err to one side where terms of its sum are left out."""
    return operation in _TOO_LARGE | _TOO_SMALL


def _agrees(finding: Finding, limit: int, operation: str) -> bool | None:
    if not has_sign(operation):
        return None
    if (found := _SUM.search(finding.message)) is not None:
        return float(found[1]) > 0
    found = _VALUES.search(finding.message)
    if found is None or "nan" in found.groups():
        return None
    output, expected = float(found[1]), float(found[2])
    if operation in _TOO_SMALL:
        return output < expected
    return output > expected or (output == 0 and finding.column is not None and finding.column >= limit)
