"""Softmax and its logarithm in ball arithmetic (Arb through python-flint): every result carries a proven enclosure.

Logits enter exactly; each operation widens its ball by its own rounding (F. Johansson, "Arb: efficient
arbitrary-precision midpoint-radius interval arithmetic", IEEE Trans. Computers 66, 2017). python-flint has one working
precision per process; it is set only within these functions and restored.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import flint
import numpy as np

from oracles._binades import settle
from oracles._enclosure import Ball, exponentials, halves
from oracles._rows import FAR, Groups, group, single_row, start
from oracles.formats import Values
from oracles.reference import FullyMasked, Reference, RowClass, classify

_PRECISION = 128
_LEAST_SEEN = 2.0**-990
_SCALED_FROM = 600.0
"""Distance below the maximum from which results are scaled before their conversion, to keep clear of underflow."""


def softmax(values: Values, *, fully_masked: FullyMasked = "nan") -> Reference:
    """Softmax of each row of a float64 matrix [rows, columns].

    ``relative_error`` is 2^-106, for what two float64 leave of a midpoint, plus the row's largest relative radius:
    about 2^-105 in all. Elements further than 1200 below the maximum are given as 0 with relative error 1. Every element
    lies in the binade of the exact value, and an exact power of two has ``relative_error`` 0.

    Raises ValueError where ``values`` is not a float64 matrix.
    """
    reference, ordinary = start(values, fully_masked)
    with flint.ctx.workprec(_PRECISION):
        for row in ordinary:
            _fill(values[row], reference, int(row))
    settle(values, reference, ordinary)
    return replace(reference, settled=True)


def log_softmax(values: Values, *, fully_masked: FullyMasked = "nan") -> Reference:
    """Logarithm of the softmax of each row of a float64 matrix [rows, columns].

    A logit of -inf gives -inf, and so does a row of -inf alone if ``fully_masked`` is "zero"; a value below float64's range
    is -inf too. ``relative_error`` is that of ``softmax``, and 0 for a row's only finite logit; ``absolute_error`` is
    2^-1000, for logarithms that underflow. An element's side of a power of two is that of its midpoint: no row is known whose
    logarithms lie within 2^-100 of one without being one.

    Raises ValueError where ``values`` is not a float64 matrix.
    """
    reference, ordinary = start(values, fully_masked, -np.inf)
    with flint.ctx.workprec(_PRECISION):
        for row in ordinary:
            _fill_logarithms(values[row], reference, int(row))
    return replace(reference, absolute_error=2.0**-1000, settled=True)


def _logarithm(groups: Groups) -> Ball:
    """log(1 + T), T the sum of all exponentials but one of the maximum's."""
    terms, _ = exponentials(groups)
    others = flint.arb(int(groups.counts[-1]) - 1)
    for term, count in zip(terms[:-1], groups.counts[:-1].tolist(), strict=True):
        others += term * count
    return others.log1p()


def _fill_logarithms(row: Values, reference: Reference, index: int) -> None:
    groups = group(row)
    logarithm, maximum = _logarithm(groups), flint.arb(groups.maximum)
    balls = [(flint.arb(x) - maximum) - logarithm for x in groups.values.tolist()]
    highs = np.array([float(ball) for ball in balls])
    lows = [float(ball - high) if np.isfinite(high) else 0.0 for ball, high in zip(balls, highs.tolist(), strict=True)]
    # Of what is smaller, the absolute error says enough.
    seen = (
        ball
        for ball, high in zip(balls, highs.tolist(), strict=True)
        if abs(high) > _LEAST_SEEN and not ball.is_exact()
    )
    accuracy = min((ball.rel_accuracy_bits() for ball in seen), default=_PRECISION)
    reference.high[index, groups.columns] = highs[groups.member]
    reference.low[index, groups.columns] = np.array(lows)[groups.member]
    is_alone = groups.counts.sum() == 1
    reference.relative_error[index, groups.columns] = 0.0 if is_alone else 2.0**-106 + 2.0 ** (1 - accuracy)


def enclose(row: Values, precision: int = _PRECISION, *, fully_masked: FullyMasked = "nan") -> list[Ball]:
    """Balls that contain the softmax of a 1-D float64 row, one per column; NaN balls where the answer is NaN.

    ``precision`` is the working precision in bits; the relative radius is a few bits more than 2^-precision.
    """
    kind = classify(single_row(row))[0] if len(row) else RowClass.ORDINARY
    if kind != RowClass.ORDINARY:
        special = flint.arb(0) if kind == RowClass.FULLY_MASKED and fully_masked == "zero" else flint.arb.nan()
        return [special] * len(row)
    balls = [flint.arb(0)] * len(row)
    if len(row):
        groups = group(row)
        with flint.ctx.workprec(precision):
            terms, denominator = exponentials(groups)
            inverse = 1 / denominator
            results = [term * inverse for term in terms]
        for column, member in zip(groups.columns, groups.member, strict=True):
            balls[column] = results[member]
    return balls


def enclosed(
    values: Values, of_row: Callable[[list[Ball]], Sequence[Ball]], numbers: int
) -> tuple[Values, Values, Values]:
    """The answers of rows as two float64, and how far their balls reach from there, [rows, numbers].

    ``of_row`` returns the balls of a row's answers from those of its logits, which are exact. Rows with NaN or +inf and rows of -inf alone
    are not computed and give NaN. Raises ValueError for another count of answers.
    """
    ordinary = np.isfinite(values.max(axis=1, initial=-np.inf))
    with flint.ctx.workprec(_PRECISION):
        found = [of_row([flint.arb(x) for x in row]) for row in values[ordinary].tolist()]
        if any(len(balls) != numbers for balls in found):
            raise ValueError(f"an enclosure gives {len(found[0])} answers for a row, expected {numbers}")
        computed = halves((ball for balls in found for ball in balls), (len(found), numbers))
    parts = np.full((3, len(values), numbers), np.nan)
    parts[:, ordinary] = computed
    high, low, off = parts
    return high, np.where(np.isfinite(high), low, 0.0), off


def _fill(row: Values, reference: Reference, index: int) -> None:
    groups = group(row)
    terms, denominator = exponentials(groups)
    inverse = 1 / denominator
    distances = groups.distances
    near = int(np.searchsorted(-distances, -FAR))
    scaled = int(np.searchsorted(-distances, -_SCALED_FROM))
    shifts = np.zeros(len(terms), dtype=np.int64)
    shifts[near:scaled] = (distances[near:scaled] / np.log(2.0)).astype(np.int64)
    results = [
        term * inverse * (flint.arb(2) ** shift)
        for term, shift in zip(terms[near:scaled], shifts[near:scaled].tolist(), strict=True)
    ]
    results += [term * inverse for term in terms[scaled:]]
    highs = [float(ball) for ball in results]
    lows = [float(ball - high) for ball, high in zip(results, highs, strict=True)]
    accuracy = min(ball.rel_accuracy_bits() for ball in results)
    high, low = np.zeros((2, len(terms)))
    high[near:], low[near:] = highs, lows
    # Arb counts a relative radius below 2^-accuracy; relative to r instead of the midpoint it is less than twice that.
    error = np.where(np.arange(len(terms)) < near, 1.0, 2.0**-106 + 2.0 ** (1 - accuracy))
    reference.high[index, groups.columns] = high[groups.member]
    reference.low[index, groups.columns] = low[groups.member]
    reference.exponent[index, groups.columns] = -shifts[groups.member]
    reference.relative_error[index, groups.columns] = error[groups.member]
