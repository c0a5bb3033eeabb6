"""Row sums with negligible rounding error, vectorised."""

import numpy as np

from oracles.formats import Values
from softcheck.operations.ulp import LARGEST


def sum_deviation(output: Values) -> Values:
    """Sums minus 1 of the rows of a [rows, columns] matrix of finite values, shape [rows]; rows of no columns give -1.

    Two error-free extractions (Rump, Ogita and Oishi, "Accurate floating-point summation part I", SIAM J. Sci. Comput.
    2008, algorithm 3.2): with sigma a power of two >= 2 n max|y|, q = (sigma + y) - sigma and y - q are exact, and the q
    of a row, multiples of 2^-53 sigma whose sum stays below sigma, add up without rounding. For values of at most 1 the
    second round leaves a rest of at most 2^-101 n^3 in all, so that rounding in it adds less than 2^-70 at 2^25 columns;
    else only the last additions round, a relative error of 2^-52 of the result. Sums beyond float64 are clipped.
    """
    if output.shape[1] == 0:
        return np.full(output.shape[0], -1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        sigma = _power_above(2.0 * output.shape[1] * np.abs(output).max(axis=1, keepdims=True))
        first, rest = _extract(output, sigma)
        second, rest = _extract(rest, _power_above(sigma * (output.shape[1] * 2.0**-51)))
        total = (first - 1.0) + (second + rest.sum(axis=1))
    # A sigma that overflowed leaves NaN; such a row holds values near the largest float64.
    return np.clip(np.where(np.isnan(total), LARGEST, total), -LARGEST, LARGEST)


def _power_above(values: Values) -> Values:
    """A power of two >= each value, at least 2^-900."""
    _, exponent = np.frexp(np.maximum(values, 2.0**-900))
    return np.ldexp(np.ones_like(values), exponent)


def _extract(values: Values, sigma: Values) -> tuple[Values, Values]:
    """The exact row sums of the leading parts of values, and the rest of each value."""
    leading = (sigma + values) - sigma
    return leading.sum(axis=1), values - leading
