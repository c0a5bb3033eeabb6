"""Causes that can be computed: findings whose numbers are those of one slip, for the logits of their own rows.

Each suspected slip foretells by what factor the sum of exponentials of a row is off, or the answers themselves. It is named only
where it foretells the witnesses of all cases within the rounding of their outputs, and nothing else does.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from oracles.formats import FORMATS, Format, Values
from softcheck.cases.case import Case
from softcheck.contract import VALUE_KINDS, FindingKind
from softcheck.operations.operation import Operation
from softcheck.report.evidence import Evidence, cause_of, is_looked_at, row_of, values_of
from softcheck.report.model import Cause, Finding

_KINDS = frozenset({FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION, FindingKind.OUT_OF_RANGE})
"""Kinds of findings whose numbers tell the sum of a row's exponentials."""

_FEWEST = 3
"""Witnesses that a slip must foretell."""
_MOST_ROUNDING = 0.5
"""Relative width of what a witness says of a slip's size, at which it tells nothing."""
_TILES = tuple(2**k for k in range(14))
_ROUNDINGS, _OF_BOUND = 2.0, 0.25
"""Roundings of the output, and the part of the error that it may have, that a witness may have beside its slip."""
_LARGEST_EPSILON = 0.125
_TELLING = 0.125
"""Rounding over an error, up to which the error tells the factor that made it."""
_Named = tuple[str, dict[str, object]]
"""The name of a cause with the values that its words hold."""
_NEAR = 110.0
"""Distance from a row's largest logit up to which an exponential may count in some format."""
_SCALES = {
    "2": 2.0,
    "1/2": 0.5,
    "ln 2, as where exp2 stands for exp": math.log(2.0),
    "1 / ln 2, as where exp stands for exp2": 1.0 / math.log(2.0),
}
"""Factors that are told by a name."""


@dataclass(frozen=True, slots=True)
class _Witness:
    """A finding with its row, and the least and largest factor of the row's sum that its numbers allow."""

    finding: Finding
    logits: Values
    """The row's finite logits, in order, at most 0."""
    top: float
    """The row's largest logit."""
    least: float
    most: float
    columns: int

    @property
    def sum(self) -> float:
        """The exact sum of exponentials, with the maximum subtracted."""
        return float(np.exp(self.logits).sum())

    def allows(self, factor: float) -> bool:
        """True for a factor of the sum that is within rounding."""
        return self.least <= factor <= self.most

    @property
    def is_telling(self) -> bool:
        """True if the sum is off by much more than rounding."""
        return self.least > 1 + 2 * (self.most - self.least) or self.most < 1 - 2 * (self.most - self.least)


def of_computed(evidence: Evidence) -> Cause | None:
    """Findings that one slip foretells; None where none does, or the numbers are not known."""
    if not evidence.is_of_logits or evidence.dtype not in FORMATS:
        return None
    witnesses = [each for each in _witnesses(evidence) if not each.allows(1.0)]
    found = _epsilon(witnesses) if len(witnesses) >= _FEWEST else None
    if found is None and sum(each.is_telling for each in witnesses) >= _FEWEST:
        found = _padding(witnesses) or _not_rescaled(witnesses)
    if found is None and (found := _no_maximum(evidence)) is not None:
        return cause_of([f for f in evidence.findings if f.kind in VALUE_KINDS], found[0], **found[1])
    found = found or _scaled(evidence)
    return None if found is None else cause_of(_explained(evidence), found[0], **found[1])


def _explained(evidence: Evidence) -> list[Finding]:
    """The findings of wrong values but of rows with NaN and +inf, and of rows of -inf alone where they give no 0."""
    wrong = [f for f in evidence.findings if f.kind in VALUE_KINDS and f.facts.reason not in ("nan", "inf")]
    return [f for f in wrong if f.facts.reason != "hidden_row" or f.facts.output == 0]


def _witnesses(evidence: Evidence) -> Iterator[_Witness]:
    fmt = FORMATS[evidence.dtype]
    for finding in evidence.findings:
        if finding.kind not in _KINDS or (row := row_of(finding, evidence)) is None:
            continue
        finite = row[np.isfinite(row)]
        if len(finite) < 2 or np.isnan(row).any() or np.isposinf(row).any():
            continue
        factor = _factor(finding, evidence.computed, fmt)
        if factor is not None:
            top = float(finite.max())
            # What a mask hides is no term of the sum, and takes a place in its tile.
            yield _Witness(finding, row - top, top, *factor, len(row))


def _factor(finding: Finding, computed: Operation, fmt: Format) -> tuple[float, float] | None:
    """The least and the largest factor of a row's sum that a finding allows; None where its numbers tell none."""
    facts, unit = finding.facts, 2.0**-fmt.precision
    if facts.sum_off is not None:
        # Outputs of 16 bits that are equal are all rounded to the same side.
        share = 1.0 if fmt.width == 16 else _OF_BOUND
        rounding = _ROUNDINGS * 2.0**-24 + share * (facts.sum_allowed or 0.0)
        off = facts.sum_off
        return (1 / (1 + off + rounding), 1 / (1 + off - rounding)) if off - rounding > -1 else None
    output, exact = facts.output, facts.expected
    if output is None or exact is None or not math.isfinite(output) or not math.isfinite(exact):
        return None
    if computed.scale is None:
        # Subnormal numbers have fewer digits.
        if min(output, exact) < fmt.least_normal or facts.ulps is None or (facts.bound or 0.5) > 0.1 / unit:
            return None
        rounding = unit * (_ROUNDINGS + _OF_BOUND * (facts.bound or 0.0))
        return exact / output * (1 - rounding), exact / output * (1 + rounding)
    by = computed.sum_sign * (output - exact)
    rounding = unit * (_ROUNDINGS + _OF_BOUND * (facts.bound or 0.0)) * max(1.0, abs(exact))
    return (math.exp(by - rounding), math.exp(by + rounding)) if abs(by) + rounding < 80 else None


def _epsilon(witnesses: Sequence[_Witness]) -> _Named | None:
    """The same number added to the sum of each row."""
    low = max((each.least - 1) * each.sum for each in witnesses)
    high = min((each.most - 1) * each.sum for each in witnesses)
    if not 0 < low <= high <= _LARGEST_EPSILON or high - low > _MOST_ROUNDING * high:
        return None
    sums = [each.sum for each in witnesses]
    if max(sums) < 1.5 * min(sums):
        return None
    return "epsilon", {"by": 0.5 * (low + high)}


def _padding(witnesses: Sequence[_Witness]) -> _Named | None:
    """Lanes of 0 behind the row, up to a power of two or to whole tiles."""

    def allowed(lanes_of: "Sequence[int]") -> bool:
        return all(
            each.allows(1 + lanes * math.exp(min(-each.top, 700.0)) / each.sum)
            for each, lanes in zip(witnesses, lanes_of, strict=True)
        )

    to_powers = [(1 << (each.columns - 1).bit_length()) - each.columns for each in witnesses]
    for blocks, lanes in (
        ("a power of two", to_powers),
        *((f"whole tiles of {tile}", [-each.columns % tile for each in witnesses]) for tile in _TILES[1:]),
    ):
        if allowed(lanes) and all(lanes):
            return "lanes", {"blocks": blocks}
    return None


def _not_rescaled(witnesses: Sequence[_Witness]) -> _Named | None:
    """A running sum over tiles that keeps what was summed under a smaller maximum."""
    for tile in _TILES:
        if all(each.allows(_running(each.logits, tile) / each.sum) for each in witnesses):
            return "not_rescaled", {"tile": tile}
    return None


def _running(logits: Values, tile: int) -> float:
    """The sum of exponentials, tile by tile, each with the maximum up to it subtracted."""
    whole = np.full(-(-len(logits) // tile) * tile, -np.inf)
    whole[: len(logits)] = logits
    parts = whole.reshape(-1, tile)
    peaks = np.maximum.accumulate(parts.max(axis=1, keepdims=True), axis=0)
    with np.errstate(invalid="ignore", over="ignore"):
        terms = np.exp(parts - peaks)
    return float(np.where(np.isneginf(parts), 0.0, terms).sum())


def _no_maximum(evidence: Evidence) -> _Named | None:
    """Wrong answers wherever exponentials without a subtracted maximum overflow, and elsewhere only where they underflow."""
    wrong = {case.id for case in evidence.wrong_cases()}
    looked_at = [case for case in evidence.cases.values() if is_looked_at(case)]
    for name in dict.fromkeys(("float32", evidence.dtype)):
        fmt = FORMATS[name]
        over = {case.id for case in looked_at if _is_beyond(case, math.log(fmt.max), math.inf)}
        # Where nothing is subtracted, a +inf is NaN in its own column alone.
        under = {
            case.id
            for case in looked_at
            if _is_beyond(case, math.inf, math.log(fmt.least_normal) + 1) or np.isposinf(values_of(case)).any()
        }
        others = {case.id for case in looked_at} & wrong - over
        if len(over) >= _FEWEST and over <= wrong and others <= under and others | over != {c.id for c in looked_at}:
            low = f", and in {len(others)} of those in which one underflows or a logit is +inf" if others else ""
            return "no_maximum", {"over": len(over), "format": name, "low": low}
    return None


def _is_beyond(case: Case, most: float, least: float) -> bool:
    """True if a row without NaN and +inf has a log-sum-exp above ``most``, or a logit near its largest below ``least``."""
    values = values_of(case)
    values = values[~(np.isnan(values) | np.isposinf(values)).any(axis=1) & np.isfinite(values).any(axis=1)]
    if not len(values):
        return False
    top = values.max(axis=1, keepdims=True)
    if most < math.inf:
        return bool(((top[:, 0] + np.log(np.exp(values - top).sum(axis=1))) > most).any())
    return bool(((values < least) & (values - top > -_NEAR)).any())


def _scaled(evidence: Evidence) -> _Named | None:
    """The answers for logits times one factor."""
    unit, is_relative = 2.0 ** -FORMATS[evidence.dtype].precision, evidence.computed.scale is None
    pairs: list[tuple[Values, int, float, float]] = []
    for finding in evidence.findings:
        output, exact = finding.facts.output, finding.facts.expected
        row = row_of(finding, evidence)
        if finding.kind is not FindingKind.ULP_EXCEEDS_BOUND or row is None or output is None or exact is None:
            continue
        if not math.isfinite(output) or not np.isfinite(row).all() or np.ptp(row) < 0.5:
            continue
        if is_relative and not 2.0**-12 < output < 1 - 16 * unit:
            continue
        # A factor moves the logits by as many units as they have.
        rounding = unit * (16 + 4 * float(np.abs(row).max())) * (output if is_relative else 1.0)
        if rounding < _TELLING * abs(output - exact):
            pairs.append((row, finding.column or 0, output, rounding))
    if len(pairs) < _FEWEST:
        return None
    found = (factor for pair in pairs[:_FEWEST] for factor in _factors(evidence, *pair[:3]))
    for name, factor in {**_SCALES, **{f"{factor:.3g}": factor for factor in found}}.items():
        if all(
            abs(evidence.answer(factor * row, column) - output) <= rounding * (1 + abs(factor))
            for row, column, output, rounding in pairs
        ):
            return "scaled", {"factor": name}
    return None


def _factors(evidence: Evidence, row: Values, column: int, output: float) -> Iterator[float]:
    """The factors of the logits, from 1/32 to 32, at which an element has an output."""
    grid = np.geomspace(1 / 32, 32, 241)

    def off(factor: float) -> float:
        return evidence.answer(factor * row, column) - output

    signs = [off(float(factor)) > 0 for factor in grid]
    for i in (i for i in range(len(grid) - 1) if signs[i] is not signs[i + 1]):
        low, high = float(grid[i]), float(grid[i + 1])
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if (off(middle) > 0) is signs[i] else (low, middle)
        if abs(low - 1) > 1e-3:
            yield low
