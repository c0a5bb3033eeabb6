"""Softmax and its logarithm in double-word arithmetic with numpy: about 99 and 90 bits, for judging float64 outputs.

Derivation of the bound (u = 2^-53; m the row's maximum; n columns):

1. x - m is exact as a double word. With N = round(64 (x - m) / ln 2) the reduced argument p = (x - m) - N ln2/64 has
   |p| < 0.0055. ln2/64 is split into two parts of 36 bits, whose products with N < 2^17 are exact, and a third that
   leaves 2^-132; all subtractions whose result is not tiny are exact. |error of p| < 2^-109 = 0.13 u^2.
2. e^p is its Taylor polynomial of degree 12 (what is left out is below 2^-129), terms 7 to 12 in float64 (their error is
   below 2^-110), the others by Horner's rule in double words. The last addition costs 3.1 u^2 and everything before
   it is scaled by |p|: at most 3.4 u^2 in all.
3. The product with 2^(j/64) from a table accurate to u^2 (N = 64 k + j) costs 8.1 u^2 and the table's u^2. So each
   exponential is within 13 u^2, and so is their weighted mean, the denominator.
4. The denominator's additions: 3.1 u^2 each, at most h per term. Its terms below 2^-1022 are left out, which changes it
   by less than n 2^-1021 relatively.
5. Reciprocal of the denominator 20 u^2, product with it 8.1 u^2.

The sum is 13 + 13 + 3.1 h + 20 + 8.1, so ``relative_error = (56 + 3.2 h) u^2``: 2^-99.5 for 1024 columns. There is no
absolute error: the exponent is kept apart. Elements further than 1200 below the maximum are given as 0 with relative
error 1.

The logarithm is r = -(d + L), L = log(1 + T), where T is the sum of all exponentials but one of the maximum's, within
(13 + 3.1 h) u^2 as above. d is exact.

6. L0 = log1p(T) in float64 is off by 5u relatively. e^L0 - 1 is computed as (2^k 2^(j/64) - 1) + 2^k 2^(j/64) (e^p - 1), whose
   terms have relative errors below 2^-97 and cancel by a factor of 3 at most: its relative error is below 2^-94.
7. The correction c = (T - (e^L0 - 1)) / e^L0 is below 2^-50 L, and is rounded within 2^-102 L. What is left out, c^2, is
   below 2^-96 L for L up to 16, and the error of e^L0 - 1 costs 2^-94 L, since f / ((1 + f) log(1 + f)) <= 1.

So ``relative_error = (56 + 3.2 h) u^2 + 2^-90``. Where T is below 2^-960, products underflow: ``absolute_error`` is 2^-900.

The constants are computed here, exactly and from integers; their formulas are in ``_constants``.
"""

from dataclasses import replace
from fractions import Fraction
from math import factorial, isqrt

import numpy as np
from numpy.typing import NDArray

from oracles import _double_word as dw
from oracles._binades import settle
from oracles._double_word import DoubleWord
from oracles._rows import FAR, start
from oracles.formats import Values
from oracles.reference import FullyMasked, Reference

UNIT_ROUNDOFF = 2.0**-53

_BLOCK_ELEMENTS = 1 << 13
_TABLE_BITS = 6
_PART_BITS = 36
_DEGREE = 12
_FLOAT64_FROM = 7
_FIXED_POINT = 256


def softmax(values: Values, *, fully_masked: FullyMasked = "nan") -> Reference:
    """Softmax of each row of a float64 matrix [rows, columns]; see the module's text for the error bound.

    Every element lies in the binade of the exact value: where it is too close to a power of two for this precision to
    tell, the sign of ``low`` is decided with more, and an exact power of two has ``relative_error`` 0.

    Raises ValueError where ``values`` is not a float64 matrix.
    """
    reference, ordinary = start(values, fully_masked)
    columns = values.shape[1]
    step = max(1, _BLOCK_ELEMENTS // max(1, columns))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for first in range(0, len(ordinary), step):
            _fill(values, reference, ordinary[first : first + step])
    settle(values, reference, ordinary)
    return replace(reference, settled=True)


def log_softmax(values: Values, *, fully_masked: FullyMasked = "nan") -> Reference:
    """Logarithm of the softmax of each row of a float64 matrix [rows, columns]; see the module's text for the error bound.

    A logit of -inf gives -inf, and so does a row of -inf alone if ``fully_masked`` is "zero"; a value below float64's range
    is -inf too.

    Raises ValueError where ``values`` is not a float64 matrix.
    """
    reference, ordinary = start(values, fully_masked, -np.inf)
    step = max(1, _BLOCK_ELEMENTS // max(1, values.shape[1]))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for first in range(0, len(ordinary), step):
            _fill_logarithms(values, reference, ordinary[first : first + step])
    return replace(reference, absolute_error=2.0**-900)


def _fill_logarithms(values: Values, reference: Reference, rows: NDArray[np.intp]) -> None:
    """Compute the logarithms of some ordinary rows into the reference."""
    x = np.ascontiguousarray(values[rows].T)
    columns = len(x)
    peak, top = x.max(axis=0), x.argmax(axis=0)
    chunk = max(1, _BLOCK_ELEMENTS // len(rows))
    sums = []
    for first in range(0, columns, chunk):
        exponential, exponent, near = _exponential(x[first : first + chunk], peak)
        inside = np.flatnonzero((top >= first) & (top < first + chunk))
        near[top[inside] - first, inside] = False
        sums.append(dw.total(_scaled(exponential, exponent, near)))
    logarithm = _log1p(dw.total(DoubleWord(np.stack([s.high for s in sums]), np.stack([s.low for s in sums]))))
    distance = dw.two_sum(np.broadcast_to(peak, x.shape), -x)
    total = dw.add(distance, DoubleWord(*(np.broadcast_to(part, x.shape) for part in logarithm)))
    finite = np.isfinite(distance.high)
    alone = (x == peak) & (np.isneginf(x).sum(axis=0) == columns - 1)
    reference.high[rows] = np.where(finite, -total.high, -np.inf).T
    reference.low[rows] = np.where(finite, -total.low, 0.0).T
    reference.relative_error[rows] = np.where(np.isneginf(x) | alone, 0.0, relative_error(columns) + 2.0**-90).T


def _log1p(x: DoubleWord) -> DoubleWord:
    """log(1 + x) of a nonnegative double word, by one Newton step from float64's."""
    first = np.log1p(x.high)
    found = _expm1(first)
    residual = dw.add(x, DoubleWord(-found.high, -found.low))
    return dw.fast_two_sum(first, residual.high / (1.0 + found.high))


def _expm1(x: Values) -> DoubleWord:
    """e^x - 1 of a nonnegative float64 below 700 with a small relative error, also next to 0."""
    steps = np.rint(x * _STEPS_PER_UNIT)
    first = dw.two_sum(x, -steps * _LN2_PARTS[0])
    second = dw.two_sum(first.high, -steps * _LN2_PARTS[1])
    argument = dw.two_sum(second.high, (second.low + first.low) - steps * _LN2_PARTS[2])
    change = dw.multiply(argument, _taylor(argument, lowest=1))
    index = steps.astype(np.int64)
    power = index & ((1 << _TABLE_BITS) - 1)
    scale = ((index >> _TABLE_BITS) + 1023 << 52).view(np.float64)
    factor = DoubleWord(_POWERS.high[power] * scale, _POWERS.low[power] * scale)
    whole = dw.add(factor, DoubleWord(-np.ones_like(x), np.zeros_like(x)))
    return dw.add(whole, dw.multiply(factor, change))


def relative_error(columns: int) -> float:
    """The bound of the module's text for the softmax of rows of that many columns."""
    return (56 + 3.2 * summation_depth(columns)) * UNIT_ROUNDOFF**2


def summation_depth(columns: int) -> int:
    """The most additions that one term passes through: halving within chunks, then over the chunks."""
    chunks = -(-columns // _BLOCK_ELEMENTS)
    return (min(columns, _BLOCK_ELEMENTS) - 1).bit_length() + (chunks - 1).bit_length()


def _fill(values: Values, reference: Reference, rows: NDArray[np.intp]) -> None:
    """Compute some ordinary rows into the reference."""
    x = np.ascontiguousarray(values[rows].T)
    peak = x.max(axis=0)
    columns = len(x)
    chunk = max(1, _BLOCK_ELEMENTS // len(rows))
    chunks = [slice(first, first + chunk) for first in range(0, columns, chunk)]
    exponentials = [_exponential(x[c], peak) for c in chunks]
    sums = [dw.total(_scaled(*parts)) for parts in exponentials]
    denominator = dw.total(DoubleWord(np.stack([s.high for s in sums]), np.stack([s.low for s in sums])))
    inverse = dw.reciprocal(denominator)
    bound = relative_error(columns)
    for c, (exponential, exponent, near) in zip(chunks, exponentials, strict=True):
        quotient = dw.multiply(exponential, inverse)
        reference.high[rows, c] = np.where(near, quotient.high, 0.0).T
        reference.low[rows, c] = np.where(near, quotient.low, 0.0).T
        reference.exponent[rows, c] = exponent.T
        reference.relative_error[rows, c] = np.where(near, bound, np.where(x[c] == -np.inf, 0.0, 1.0)).T


def _exponential(x: Values, peak: Values) -> tuple[DoubleWord, NDArray[np.int64], NDArray[np.bool_]]:
    """e^(x - peak) as double word times 2^exponent, and where x is near enough; elsewhere the result is meaningless."""
    distance = dw.two_sum(x, -peak)
    near = distance.high >= -FAR
    high, low = np.where(near, distance.high, 0.0), np.where(near, distance.low, 0.0)
    steps = np.rint(high * _STEPS_PER_UNIT)
    first = dw.two_sum(high, -steps * _LN2_PARTS[0])
    second = dw.two_sum(first.high, -steps * _LN2_PARTS[1])
    third = dw.two_sum(second.high, low)
    argument = dw.two_sum(third.high, (third.low + (second.low + first.low)) - steps * _LN2_PARTS[2])
    index = steps.astype(np.int64)
    power = index & ((1 << _TABLE_BITS) - 1)
    table = DoubleWord(_POWERS.high[power], _POWERS.low[power])
    return dw.multiply(table, _taylor(argument)), np.where(near, index >> _TABLE_BITS, 0), near


def _taylor(argument: DoubleWord, *, lowest: int = 0) -> DoubleWord:
    """Sum of p^(k - lowest) / k! from k = lowest on: e^p for 0, (e^p - 1) / p for 1."""
    tail = np.full_like(argument.high, _COEFFICIENTS[_DEGREE].high)
    for k in range(_DEGREE - 1, _FLOAT64_FROM - 1, -1):
        tail = tail * argument.high + _COEFFICIENTS[k].high
    value = DoubleWord(tail, np.zeros_like(tail))
    for k in range(_FLOAT64_FROM - 1, lowest - 1, -1):
        value = dw.add(_COEFFICIENTS[k], dw.multiply(argument, value))
    return value


def _scaled(x: DoubleWord, exponent: NDArray[np.int64], near: NDArray[np.bool_]) -> DoubleWord:
    """The product x * 2^exponent for exponent <= 0; zero where 2^exponent is subnormal or x is not near."""
    factor = np.where(near, ((np.maximum(exponent, -1023) + 1023) << 52).view(np.float64), 0.0)
    return DoubleWord(x.high * factor, x.low * factor)


def _double_words(values: list[Fraction]) -> DoubleWord:
    """Exact values as double words; Python rounds a fraction to float correctly."""
    high = [float(value) for value in values]
    low = [float(value - Fraction(h)) for value, h in zip(values, high, strict=True)]
    return DoubleWord(np.array(high), np.array(low))


def _ln2() -> Fraction:
    """The logarithm ln 2 = sum over k >= 1 of 1 / (k 2^k), to 2^-256."""
    one = 1 << (_FIXED_POINT + 16)
    return Fraction(sum((one >> k) // k for k in range(1, _FIXED_POINT + 16)), one)


def _constants() -> tuple[tuple[float, float, float], DoubleWord, tuple[DoubleWord, ...]]:
    """ln2/64 in three parts, the powers 2^(j/64) as a table, and 1/k!."""
    step = _ln2() / (1 << _TABLE_BITS)
    parts: list[Fraction] = []
    rest = step
    for _ in range(2):
        # 2^-7 < ln2/64 < 2^-6, and each part starts where the last one ended.
        scale = 1 << (_PART_BITS + 6 + _PART_BITS * len(parts))
        parts.append(Fraction(int(rest * scale), scale))
        rest -= parts[-1]
    root = 2 << _FIXED_POINT
    for _ in range(_TABLE_BITS):
        root = isqrt(root << _FIXED_POINT)
    base = Fraction(root, 1 << _FIXED_POINT)
    table = _double_words([base**j for j in range(1 << _TABLE_BITS)])
    inverses = _double_words([Fraction(1, factorial(k)) for k in range(_DEGREE + 1)])
    coefficients = tuple(DoubleWord(high, low) for high, low in zip(*inverses, strict=True))
    return (float(parts[0]), float(parts[1]), float(rest)), table, coefficients


_LN2_PARTS, _POWERS, _COEFFICIENTS = _constants()
_STEPS_PER_UNIT = (1 << _TABLE_BITS) / float(_ln2())
