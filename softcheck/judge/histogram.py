"""Figures by bin that can be merged over cases: a logarithmic histogram of ULP errors, and the largest errors and bounds along a row.

Bin 0 counts errors below 2^-10. Bin 1 + 64 k + i counts errors from 2^(k-10) (1 + i/64) up to the next such edge, i in
0..63. From 2^-10 ULP on, the upper edge of a bin is at most 1/64 = 1.6 % above any error in it. Smaller errors are not
told apart, nor from 0, since three decimals print them as 0.001 or less.

Bins of the distance d = max x - x_j: bin 0 holds d < 2^-10, bins 1 + 2 k and 2 + 2 k hold d from 2^(k-10) and from
1.5 * 2^(k-10) up to the next such edge, and bin 41 holds every d >= 2^10. Bins of the column: bin 0 holds column 0, bin k
the columns from 2^(k-1) up to 2^k.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Values
from softcheck.operations.block import Block
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


Peak = tuple[float, float, float]
"""Of some elements the largest error and the largest bound, both in ULPs, and the largest error over its own bound."""

_OCTAVES = 20
_HALF_OCTAVES = 51
_FIRST_HALF = int(np.float64(LEAST).view(np.int64)) >> _HALF_OCTAVES
_LAST_BIN = 2 * _OCTAVES + 1

_SAMPLED, _FEW = 16, 2048
_NONE = -1.0
"""A figure that no element has."""


class Peaks:
    """Peaks that grow as blocks are added. Only elements that have a bound count: finite ones of ordinary rows, not masked."""

    def __init__(self) -> None:
        self._distances = np.full((3, _LAST_BIN + 1), _NONE)
        self._columns = np.full((3, 0), _NONE)

    def add(self, block: Block) -> None:
        """Adds the elements of a block."""
        bounded = block.specials.bounded
        figures = [block.errors, np.broadcast_to(block.bounds.elements, bounded.shape)]
        if not bounded.all():
            figures = [np.where(bounded, values, _NONE) for values in figures]
        figures.append(block.shares)
        places = _unclipped(block.logits.max(axis=1, keepdims=True) - block.logits).ravel()
        starts = [0, *(1 << k for k in range((bounded.shape[1] - 1).bit_length()))]
        if self._columns.shape[1] < len(starts):
            wider = np.full((3, len(starts)), _NONE)
            wider[:, : self._columns.shape[1]] = self._columns
            self._columns = wider
        for of_bins, of_columns, values in zip(self._distances, self._columns, figures, strict=True):
            _raise(of_bins, places, values.ravel())
            found = np.maximum.reduceat(values.max(axis=0), starts)
            np.maximum(of_columns[: len(starts)], found, out=of_columns[: len(starts)])

    @property
    def by_distance(self) -> dict[int, Peak]:
        """The peaks by bin of the distance, ascending; empty bins are left out."""
        return _found(self._distances)

    @property
    def by_column(self) -> dict[int, Peak]:
        """The peaks by bin of the column, ascending; empty bins are left out."""
        return _found(self._columns)


def distance_below(b: int) -> float | None:
    """The least distance above a bin's; None for the last bin, which has no end."""
    octave, half = divmod(b, 2)
    return None if b == _LAST_BIN else math.ldexp(LEAST * (1.0 + 0.5 * half), octave)


def column_below(b: int) -> int:
    """The least column above a bin's."""
    return 1 << b


def merge_peaks(a: Mapping[int, Peak], b: Mapping[int, Peak]) -> dict[int, Peak]:
    """The larger peaks of both, by bin in ascending order."""
    nothing = (_NONE, _NONE, _NONE)
    both = ((key, a.get(key, nothing), b.get(key, nothing)) for key in sorted({*a, *b}))
    return {key: (max(x[0], y[0]), max(x[1], y[1]), max(x[2], y[2])) for key, x, y in both}


def _unclipped(distances: Values) -> NDArray[np.int64]:
    """The bins of distances >= 0, of any shape, as numbers that may lie beyond the first and the last bin."""
    # The leading bits of a float64 are its exponent and the first bit after the point: the number of a half octave.
    places = distances.view(np.int64) >> _HALF_OCTAVES
    places -= _FIRST_HALF - 1
    return places


def _raise(largest: Values, places: NDArray[np.int64], values: Values) -> None:
    """Raises each bin's figure to the largest value in it; ``places`` are the values' bins before they are clipped."""
    if values.size > _FEW:
        # Grouped maxima cost several times as much as a comparison, and after a sample few values are larger.
        _raise(largest, places[::_SAMPLED], values[::_SAMPLED])
        larger = np.flatnonzero(values > largest.take(places, mode="clip"))
        places, values = places[larger], values[larger]
    np.maximum.at(largest, np.minimum(np.maximum(places, 0), _LAST_BIN), values)


def _found(peaks: Values) -> dict[int, Peak]:
    return {b: (error, bound, share) for b, (error, bound, share) in enumerate(peaks.T.tolist()) if error >= 0}
