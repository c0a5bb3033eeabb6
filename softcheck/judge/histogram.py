"""A logarithmic histogram of ULP errors that can be merged over cases, and percentiles from it.

Bin 0 counts errors below 2^-10. Bin 1 + 64 k + i counts errors from 2^(k-10) (1 + i/64) up to the next such edge, i in
0..63. From 2^-10 ULP on, the upper edge of a bin is at most 1/64 = 1.6 % above any error in it. Smaller errors are not
told apart, nor from 0, since three decimals print them as 0.001 or less.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np

from oracles.formats import Values
from softcheck.operations.ulp import LARGEST

LEAST = 2.0**-10
BINS_PER_OCTAVE = 64
SHIFT = 52 - 6
FIRST = int(np.float64(LEAST).view(np.int64)) >> SHIFT
"""The leading bits of a float64 are its exponent and the first six bits after the point: the number of a bin, counted from here."""


class Histogram:
    """Counts that grow as errors are added."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, dtype=np.int64)

    def add(self, errors: Values) -> None:
        """Counts finite errors >= 0, any shape."""
        flat = np.ascontiguousarray(errors, dtype=np.float64).ravel()
        bins = np.maximum((flat.view(np.int64) >> SHIFT) - (FIRST - 1), 0)
        counts = np.bincount(bins, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    def counts(self) -> dict[int, int]:
        """Counts by bin; empty bins are left out."""
        return {int(b): int(self._counts[b]) for b in np.flatnonzero(self._counts)}


def histogram(errors: Values) -> dict[int, int]:
    """Counts by bin of finite errors >= 0, any shape. Empty bins are left out."""
    whole = Histogram()
    whole.add(errors)
    return whole.counts()


def merge(histograms: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Sum of histograms."""
    merged: dict[int, int] = {}
    for counts in histograms:
        for b, count in counts.items():
            merged[b] = merged.get(b, 0) + count
    return merged


def upper_edge(b: int) -> float:
    """The least value above a bin's errors; the largest float64 for the last bin."""
    octave, step = divmod(b, BINS_PER_OCTAVE)
    try:
        return math.ldexp(LEAST * (1 + step / BINS_PER_OCTAVE), octave)
    except OverflowError:
        return LARGEST


def percentile(counts: Mapping[int, int], fraction: float) -> float | None:
    """Upper edge of the bin that holds the least error v with at least ``fraction`` of all errors <= v.

    The edge is never below the exact percentile, and at most 1.6 % above it, or 2^-10 if that is more. Returns None for
    an empty histogram.
    """
    total = sum(counts.values())
    if total == 0:
        return None
    rank = max(1, math.ceil(fraction * total))
    seen = 0
    for b in sorted(counts):
        seen += counts[b]
        if seen >= rank:
            return upper_edge(b)
    return upper_edge(max(counts))
