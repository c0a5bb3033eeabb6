"""Medians with bootstrap intervals, ratios formed within rounds, when to stop, and words for a comparison. No torch."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
RESAMPLES = 1000
LEAST_ROUNDS = 12
"""Below this many rounds the bootstrap interval of a median covers too little to compare anything by it."""
PRECISE = 0.01
"""A ratio is known well enough when its interval is narrower than this share of it."""
MARGIN = 0.01
"""Two variants whose times differ by less are the same for a reader who picks one."""

Word = Literal["SAME", "FAST", "SLOW", "AMBIGUOUS"]


class Interval(msgspec.Struct, frozen=True):
    """A median and the bounds of its 95 % bootstrap interval."""

    low: float
    mid: float
    high: float

    @property
    def width(self) -> float:
        """The interval's width as a share of the median; infinite where the median is 0."""
        return (self.high - self.low) / self.mid if self.mid else math.inf


def median_interval(samples: Sequence[float] | NDArray[np.float64]) -> Interval:
    """The median of samples with its percentile bootstrap interval, from 1000 resamples; NaN where nothing could be timed.

    The same samples give the same interval. Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
    chapter 13.
    """
    values = np.asarray(samples, dtype=np.float64)
    if not values.size:
        return Interval(math.nan, math.nan, math.nan)
    drawn = np.random.default_rng(0).integers(0, len(values), size=(RESAMPLES, len(values)))
    medians = np.median(values[drawn], axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return Interval(float(low), float(np.median(values)), float(high))


def ratio_interval(numerators: Sequence[float], denominators: Sequence[float]) -> Interval:
    """Returns the interval of the median of the ratios within rounds.

    Element i of both comes from round i, so that a disturbance of a whole round cancels. Raises ValueError if the two
    don't have the same number of rounds.
    """
    if len(numerators) != len(denominators):
        raise ValueError(f"{len(numerators)} rounds over {len(denominators)} rounds; expected as many of both")
    return median_interval(np.asarray(numerators) / np.asarray(denominators))


def precise(ratios: Sequence[Interval], within: float = PRECISE) -> bool:
    """True if every ratio is known well enough to stop measuring."""
    return all(ratio.width < within for ratio in ratios)


def word(times_faster: Interval | None, rounds: int, margin: float = MARGIN) -> Word:
    """Returns the verdict on an interval of "times faster than the reference".

    FAST or SLOW if all of it lies beyond the margin, SAME if all of it lies within, else AMBIGUOUS, which is neither a
    pass nor a fail. Too few rounds are ambiguous.
    """
    if times_faster is None or rounds < LEAST_ROUNDS:
        return "AMBIGUOUS"
    if times_faster.low > 1 + margin:
        return "FAST"
    if times_faster.high < 1 / (1 + margin):
        return "SLOW"
    if times_faster.low >= 1 / (1 + margin) and times_faster.high <= 1 + margin:
        return "SAME"
    return "AMBIGUOUS"


def geometric_mean(ratios: Sequence[Interval]) -> Interval | None:
    """Geometric mean of positive ratios; its bounds are those of all bounds at once, so they are wide, not narrow."""
    if not ratios:
        return None

    def mean(values: list[float]) -> float:
        return math.exp(math.fsum(map(math.log, values)) / len(values))

    return Interval(mean([r.low for r in ratios]), mean([r.mid for r in ratios]), mean([r.high for r in ratios]))


def settled(times: Sequence[float], window: int = 5, within: float = 0.02) -> bool:
    """True if a warm-up may end: the medians of the last two windows of launches differ by less than ``within``."""
    if len(times) < 2 * window:
        return False
    before, after = np.median(times[-2 * window : -window]), np.median(times[-window:])
    return bool(abs(after - before) <= within * after)
