"""The everyday oracle: softmax and its logarithm in float64 with numpy, for outputs of 16 and 32 bits, with error bounds.

Derivation of the bound (u = 2^-53; m the row's maximum; d = m - x >= 0; g the exact softmax; n columns):

1. ``fl(x - m) = -d (1 + e)`` with |e| <= u: a subtraction of float64 rounds once and never underflows inexactly. So the
   exponential's argument is off by at most u d, and e^-d by that much relatively.
2. ``exp`` itself is off by at most 5u relatively: two and a half units in the last place. numpy's AVX512 code follows
   Tang (ACM TOMS 15, 1989), which proves 0.77 units; elsewhere the C library answers, and glibc documents 1 unit.
   exp(0) is exactly 1.
3. Summation of nonnegative terms is off by at most h u relatively, h the most additions that one term passes through
   (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2); ``summation_depth`` gives h.
4. The division rounds once: u.
5. Steps 1 and 2 in the denominator weigh as the terms do: u sum_i g_i d_i + 5u.

First-order terms add to ``u (d + D + h + 11)``, D = sum_i g_i d_i. Terms with d > 745 underflow: they change the
denominator, which is at least 1, by at most n 2^-1022 relatively. This and all second-order terms (B < 2^-42, so
B^2 < 2^-30 u) are covered by one more u: ``relative_error = u (d + D + h + 12)``. Underflow of a result, gradual or
flushed to zero, costs at most 2^-1022, the ``absolute_error``.

The logarithm is r = -(d + L), L = log(1 + T), where T is the sum of all terms but one of the maximum's:

6. T is off by u (D' + h + 6) relatively, D' the mean distance of its own terms, weighted by them: steps 1 to 3.
7. log1p is off by at most 5u relatively (glibc documents 1 unit in the last place, numpy's AVX512 code 4), and enlarges no
   relative error of T: T / ((1 + T) log(1 + T)) <= 1.
8. Both parts have one sign, and their sum rounds once. So ``relative_error = u (D' + h + 14)``, with one u for all terms of
   second order; terms that underflow cost at most n 2^-1022, the ``absolute_error``.
"""

import numpy as np

from oracles._rows import start
from oracles.formats import Values
from oracles.reference import FullyMasked, Reference

UNIT_ROUNDOFF = 2.0**-53
UNDERFLOW = 2.0**-1022

_UNDERFLOW_DISTANCE = 800.0
"""Distance beyond which exp gives 0 and ``absolute_error`` covers the element; it keeps the bound finite for masked
logits."""
_BLOCK_ELEMENTS = 1 << 15
_NARROW = 16


def softmax(values: Values, *, fully_masked: FullyMasked = "nan") -> Reference:
    """Softmax of each row of a float64 matrix [rows, columns]; see the module's text for the error bound.

    ``low`` and ``exponent`` are zero throughout. A row whose finite logits are all equal has ``relative_error`` 0 where
    their number is a power of two, else u. Where c copies of the maximum, c a power of two, have any further finite
    logit beside them, the maxima's ``high`` is below 1/c as the exact value is, so that both lie in the same binade.

    Raises ValueError where ``values`` is not a float64 matrix.
    """
    reference, ordinary = start(values, fully_masked)
    _, columns = values.shape
    step = max(1, _BLOCK_ELEMENTS // max(1, columns))
    everything = len(ordinary) == len(values)
    for first in range(0, len(ordinary), step):
        if everything:
            block = slice(first, first + step)
            _fill(values[block], reference.high[block], reference.relative_error[block])
        else:
            chosen = ordinary[first : first + step]
            high, error = np.empty((2, len(chosen), columns))
            _fill(values[chosen], high, error)
            reference.high[chosen], reference.relative_error[chosen] = high, error
    return Reference(reference.high, reference.low, reference.exponent, reference.relative_error, UNDERFLOW)


def log_softmax(values: Values, *, fully_masked: FullyMasked = "nan") -> Reference:
    """Logarithm of the softmax of each row of a float64 matrix [rows, columns]; see the module's text for the error bound.

    A logit of -inf gives -inf, and so does a row of -inf alone if ``fully_masked`` is "zero". ``low`` and ``exponent`` are zero
    throughout.

    Raises ValueError where ``values`` is not a float64 matrix.
    """
    reference, ordinary = start(values, fully_masked, -np.inf)
    columns = values.shape[1]
    step = max(1, _BLOCK_ELEMENTS // max(1, columns))
    for first in range(0, len(ordinary), step):
        rows = ordinary[first : first + step]
        reference.high[rows], reference.relative_error[rows] = _logarithms(values[rows])
    return Reference(reference.high, reference.low, reference.exponent, reference.relative_error, columns * UNDERFLOW)


def _logarithms(values: Values) -> tuple[Values, Values]:
    """The logarithms of ordinary rows, and their relative errors."""
    rows, columns = values.shape
    peak = values.max(axis=1, keepdims=True)
    with np.errstate(under="ignore", over="ignore"):
        distances = peak - values
        others = np.minimum(distances, _UNDERFLOW_DISTANCE)
        terms = np.exp(-distances)
        terms[np.arange(rows), values.argmax(axis=1)] = 0.0
        total = terms.sum(axis=1)
        mean_distance = np.einsum("ij,ij->i", terms, others) / np.where(total > 0, total, 1.0)
        high = -(distances + np.log1p(total)[:, None])
    error = np.repeat(UNIT_ROUNDOFF * (mean_distance + summation_depth(columns) + 14)[:, None], columns, axis=1)
    # Exact: -inf, and the row's only finite logit.
    error[
        np.isneginf(values) | ((distances == 0) & (np.isneginf(values).sum(axis=1, keepdims=True) == columns - 1))
    ] = 0.0
    return high, error


def summation_depth(columns: int) -> int:
    """An upper bound on the additions that one of ``columns`` terms passes through in numpy's row sum.

    Rows shorter than 16 are added column by column. Longer ones are halved, at multiples of 8, down to at most 128 terms,
    which eight accumulators add (numpy, loops_utils.h.src, pairwise sum); the result is added to the reduction's start,
    and up to 7 terms that are left over follow one by one.
    """
    if columns < _NARROW:
        return columns
    halvings = 0
    while columns > 128:
        half = columns // 2
        columns -= half - half % 8
        halvings += 1
    return 1 + halvings + columns // 8 + 3 + 7


def _fill(values: Values, high: Values, error: Values) -> None:
    """Compute ordinary rows [rows, columns] into ``high`` and ``error`` of the same shape."""
    if 1 < values.shape[1] < _NARROW:
        # Reductions along short rows would cost a loop per row; column order makes them a loop per column.
        columnwise = np.asfortranarray(values)
        work = np.empty_like(columnwise), np.empty_like(columnwise)
        _compute(columnwise, *work)
        high[...], error[...] = work
    else:
        _compute(values, high, error)


def _compute(values: Values, high: Values, error: Values) -> None:
    peak = values.max(axis=1, keepdims=True)
    with np.errstate(under="ignore", over="ignore"):
        np.subtract(values, peak, out=high)
        np.maximum(high, -_UNDERFLOW_DISTANCE, out=error)
        np.exp(high, out=high)
        total = high.sum(axis=1, keepdims=True)
        np.divide(high, total, out=high)
        mean_distance = -np.einsum("ij,ij->i", high, error)
        np.multiply(error, -UNIT_ROUNDOFF, out=error)
        error += (UNIT_ROUNDOFF * (mean_distance + summation_depth(values.shape[1]) + 12))[:, None]
    _settle_whole_totals(values, peak, total[:, 0], high, error)


def _settle_whole_totals(values: Values, peak: Values, total: Values, high: Values, error: Values) -> None:
    """Correct rows whose computed denominator is an integer, the only ones in which the maxima can show exactly 1/c.

    The computed denominator is at least c, since rounding is monotonic; if it exceeds c = 2^k, it is at least c (1 + 2u)
    and the quotient rounds below 1/c by itself.
    """
    whole = np.flatnonzero(total == np.rint(total))
    if not len(whole):
        return
    denominator = total[whole]
    is_peak = values[whole] == peak[whole]
    copies = is_peak.sum(axis=1)
    uniform = copies == (values[whole] > -np.inf).sum(axis=1)
    power_of_two = np.frexp(denominator)[0] == 0.5
    # Equal logits: exponentials and their sum are exact, and only the division may round.
    error[whole[uniform]] = np.where(power_of_two, 0.0, UNIT_ROUNDOFF)[uniform, None]
    clamped = ~uniform & power_of_two & (copies == denominator)
    below = np.nextafter(1.0 / denominator[clamped], 0.0)[:, None]
    high[whole[clamped]] = np.where(is_peak[clamped], below, high[whole[clamped]])
