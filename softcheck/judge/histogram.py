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
from itertools import accumulate

import numpy as np

from oracles.formats import Values
from softcheck.operations.block import Block
from softcheck.operations.ulp import LARGEST

LEAST = 2.0**-10
BINS_PER_OCTAVE = 64
SHIFT = 52 - 6
FIRST = int(np.float64(LEAST).view(np.int64)) >> SHIFT
"""The leading bits of a float64 are its exponent and the first six bits after the point: the number of a bin, counted from here."""


def histogram(errors: Values) -> dict[int, int]:
    """Counts by bin of finite errors >= 0, any shape. Empty bins are left out."""
    flat = np.ascontiguousarray(errors, dtype=np.float64).ravel()
    counts = np.bincount(np.maximum((flat.view(np.int64) >> SHIFT) - (FIRST - 1), 0))
    used = np.flatnonzero(counts)
    return dict(zip(used.tolist(), counts[used].tolist(), strict=True))


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
    rank = max(1, math.ceil(fraction * sum(counts.values())))
    used = sorted(counts)
    seen = accumulate(counts[b] for b in used)
    return next((upper_edge(b) for b, count in zip(used, seen, strict=True) if count >= rank), None)


Peak = tuple[float, float, float]
"""Of some elements the largest error and the largest bound, both in ULPs, and the largest error over its own bound."""

_OCTAVES = 20
_HALF_OCTAVES = 51
_FIRST_HALF = int(np.float64(LEAST).view(np.int64)) >> _HALF_OCTAVES
_LAST_BIN = 2 * _OCTAVES + 1

_NONE = -1.0
"""A figure that no element has."""


def peaks(block: Block) -> tuple[dict[int, Peak], dict[int, Peak]]:
    """The peaks of a block by bin of the distance and by bin of the column, both ascending; empty bins are left out.

    Only elements that have a bound count: finite ones of ordinary rows, not masked.
    """
    bounded = block.specials.bounded
    figures = [block.errors, np.broadcast_to(block.bounds.elements, bounded.shape)]
    if not bounded.all():
        figures = [np.where(bounded, values, _NONE) for values in figures]
    figures.append(block.shares)
    distances = block.logits.max(axis=1, keepdims=True) - block.logits
    # The leading bits of a float64 are its exponent and the first bit after the point: the number of a half octave.
    places = np.clip((distances.view(np.int64) >> _HALF_OCTAVES) - (_FIRST_HALF - 1), 0, _LAST_BIN)
    by_distance = np.full((3, _LAST_BIN + 1), _NONE)
    for largest, values in zip(by_distance, figures, strict=True):
        np.maximum.at(largest, places, values)
    starts = [0, *(1 << k for k in range((bounded.shape[1] - 1).bit_length()))]
    by_column = np.stack([np.maximum.reduceat(values.max(axis=0), starts) for values in figures])
    return _found(by_distance), _found(by_column)


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


def _found(peaks: Values) -> dict[int, Peak]:
    return {b: (error, bound, share) for b, (error, bound, share) in enumerate(peaks.T.tolist()) if error >= 0}
