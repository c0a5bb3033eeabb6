"""The side of a power of two on which an exact softmax value lies, if a reference's own error leaves it open.

ulp(r) halves below every power of two, so a reference must not sit in the wrong binade, however close r is.

Enough precision settles every such case, except r = 2^k exactly. By the theorem of Lindemann and Weierstrass, r_j = 1 /
sum_i e^(x_i - x_j) with rational x_i is rational only if all finite x_i are equal. One more family is settled without
computing, since the precision it needs may be astronomical: with c copies of the maximum and any other finite logit,
however far below, the maxima's r is below 1/c.
"""

import flint
import numpy as np
from numpy.typing import NDArray

from oracles._enclosure import exponentials
from oracles._rows import Groups, group
from oracles.formats import Values
from oracles.reference import Reference

MAX_PRECISION = 1 << 17
"""Bits beyond which a question is given up with an ArithmeticError; differences of float64 logits as small as 2^-1074
need about 1200 bits, or a small multiple of it where lower orders cancel."""

_BLOCK_ELEMENTS = 1 << 16

_NUDGE = 2.0**-200
"""The least ``low`` / ``high`` that marks a side of a power of two; far below any stated relative error."""


def settle(values: Values, reference: Reference, ordinary: NDArray[np.intp]) -> None:
    """Moves every element of the ordinary rows that could lie on either side of a power of two to the right side.

    Changes ``low``, by less than the stated error, so that the bound still holds; and ``relative_error`` to 0 if r is
    exactly the power of two. Raises ArithmeticError if ``MAX_PRECISION`` does not suffice.
    """
    step = max(1, _BLOCK_ELEMENTS // max(1, values.shape[1]))
    for first in range(0, len(ordinary), step):
        _settle_rows(values, reference, ordinary[first : first + step])


def _settle_rows(values: Values, reference: Reference, rows: NDArray[np.intp]) -> None:
    high = reference.high[rows]
    doubtful = (np.frexp(high)[0] == 0.5) & (np.abs(reference.low[rows]) <= 2 * reference.relative_error[rows] * high)
    for index in np.flatnonzero(doubtful.any(axis=1)):
        row, columns = rows[index], np.flatnonzero(doubtful[index])
        side = _sides(values[row], columns, reference.high[row, columns], reference.exponent[row, columns])
        low = reference.low[row, columns]
        reference.low[row, columns] = np.where(side * low > 0, low, side * reference.high[row, columns] * _NUDGE)
        reference.relative_error[row, columns[side == 0]] = 0.0


def _sides(row: Values, columns: NDArray[np.intp], high: Values, exponent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sign of r - high * 2^exponent per column, each of those a power of two close to r."""
    groups = group(row)
    if len(groups.values) == 1:
        # r = 1/n exactly, and it is doubtful only where n is a power of two: otherwise it is 2^-54 away from any.
        return np.zeros(len(columns), dtype=np.int64)
    powers = np.frexp(high)[1] - 1 + exponent
    asked = np.searchsorted(groups.values, row[columns])
    sides: dict[tuple[int, int], int] = {}
    largest = len(groups.values) - 1
    if groups.counts[largest] & (groups.counts[largest] - 1) == 0:
        sides[largest, 1 - int(groups.counts[largest]).bit_length()] = -1
    questions = {(int(g), int(k)) for g, k in zip(asked, powers, strict=True)}
    precision = 256
    while open_questions := questions - sides.keys():
        if precision > MAX_PRECISION:
            raise ArithmeticError(
                f"{MAX_PRECISION} bits do not tell whether softmax is below or above a power of two, for "
                f"{len(open_questions)} elements of a row of {len(row)}; raise oracles._binades.MAX_PRECISION"
            )
        sides |= _decide(groups, open_questions, precision)
        precision *= 2
    return np.array([sides[int(g), int(k)] for g, k in zip(asked, powers, strict=True)], dtype=np.int64)


def _decide(groups: Groups, questions: set[tuple[int, int]], precision: int) -> dict[tuple[int, int], int]:
    """Signs of r - 2^k, for as many pairs (group, k) as this precision tells."""
    with flint.ctx.workprec(precision):
        terms, denominator = exponentials(groups)
        differences = {(g, k): terms[g] * flint.arb(2) ** -k - denominator for g, k in questions}
    return {question: 1 if ball > 0 else -1 for question, ball in differences.items() if ball > 0 or ball < 0}
