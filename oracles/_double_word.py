"""Double-word arithmetic in numpy: a value as the unevaluated sum of two float64, about 106 bits, without FMA.

u = 2^-53; a double word (high, low) has |low| <= u |high|. Algorithms: Dekker (Numer. Math. 18, 1971), Knuth (TAOCP
volume 2, section 4.2.2), and as analysed by Joldes, Muller and Popescu (ACM TOMS 44, 2017). The bounds stated here
are looser than theirs and follow from adding the roundings of each step. No operation may overflow or underflow.
"""

from typing import NamedTuple

import numpy as np

from oracles.formats import Values

_SPLITTER = 2.0**27 + 1


class DoubleWord(NamedTuple):
    """high + low, elementwise."""

    high: Values
    low: Values


def two_sum(a: Values, b: Values) -> DoubleWord:
    """Exact a + b (Knuth)."""
    total = a + b
    shadow = total - a
    return DoubleWord(total, (a - (total - shadow)) + (b - shadow))


def fast_two_sum(a: Values, b: Values) -> DoubleWord:
    """Exact a + b where |a| >= |b| or a = 0 (Dekker)."""
    total = a + b
    return DoubleWord(total, b - (total - a))


def two_product(a: Values, b: Values) -> DoubleWord:
    """Exact a * b (Dekker, with Veltkamp's splitting into 26-bit halves)."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return DoubleWord(product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low)


def add(x: DoubleWord, y: DoubleWord) -> DoubleWord:
    """Sum x + y with absolute error at most 3.1 u^2 (|x| + |y|); relative 3.1 u^2 where the signs agree.

    Roundings: of x.low + y.low, at most u^2 (|x| + |y|), and of its sum with the error of x.high + y.high, at most
    2 u^2 (|x| + |y|), up to factors 1 + O(u).
    """
    total = two_sum(x.high, y.high)
    return fast_two_sum(total.high, total.low + (x.low + y.low))


def multiply(x: DoubleWord, y: DoubleWord) -> DoubleWord:
    """Product x * y with relative error at most 8.1 u^2.

    u^2 each for the product of the low words, which is left out, and for the two cross products; 2 u^2 for their sum;
    3 u^2 for its sum with the low word of the product of the high words; factors 1 + O(u) make up the rest.
    """
    product = two_product(x.high, y.high)
    return fast_two_sum(product.high, product.low + (x.high * y.low + x.low * y.high))


def reciprocal(x: DoubleWord) -> DoubleWord:
    """1 / x with relative error at most 20 u^2; exact for powers of two.

    q = fl(1 / x.high) leaves the residual e = 1 - q x, |e| <= 2.1 u. It is computed within 7 u^2; the correction q e
    rounds within 3 u^2; and what one correction step leaves is e^2 <= 5 u^2.
    """
    quotient = 1.0 / x.high
    product = two_product(quotient, x.high)
    residual = ((1.0 - product.high) - product.low) - quotient * x.low
    return fast_two_sum(quotient, quotient * residual)


def total(x: DoubleWord) -> DoubleWord:
    """Sum over axis 0 of nonnegative double words, by halving: ceil(log2 n) additions per term, 3.1 u^2 each."""
    high, low = x
    while len(high) > 1:
        pairs = len(high) // 2
        kept = len(high) - pairs
        folded = add(DoubleWord(high[:pairs], low[:pairs]), DoubleWord(high[kept:], low[kept:]))
        middle = slice(pairs, kept)
        high, low = _append(folded.high, high[middle]), _append(folded.low, low[middle])
    return DoubleWord(high[0], low[0])


def _append(folded: Values, rest: Values) -> Values:
    return np.concatenate((folded, rest)) if len(rest) else folded


def _halves(a: Values) -> tuple[Values, Values]:
    scaled = _SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high
