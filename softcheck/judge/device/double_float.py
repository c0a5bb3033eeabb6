# ruff: noqa: N803 - kernels name compile-time constants in capitals, as Triton does
"""Unevaluated sums of two float32, and exp(-d) of them, for GPUs whose float64 is slow.

u = 2^-24. ``two_sum``, ``fast_two_sum`` and the product with its fused remainder are exact (T. J. Dekker, doi
10.1007/BF01397083; D. Knuth, The Art of Computer Programming vol. 2, 4.2.2, theorem B) unless something overflows or
underflows, which no caller lets happen: M. Joldes, J.-M. Muller, V. Popescu, "Tight and rigorous error bounds for basic
building blocks of double-word arithmetic", doi 10.1145/3121432. They are exact only as written, so kernels that use
them are launched with ``EXACT``.

The exponential: with n the integer nearest to d log2(e), e^-d = 2^-n e^g, g = n ln 2 - d. ln 2 is split into three
parts, two of them of 16 bits, so that their products with n are exact. e^g is its Taylor polynomial by Horner's rule:
the last terms, which are small, are float32, and the others are sums of two. docs/bounds.md derives ``error``.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import triton.language as tl

from softcheck.judge.device._jit import INTERPRETED, jit

EXACT: dict[str, Any] = {"enable_fp_fusion": False, "sanitize_overflow": False}
"""Launch options. The compiler must not fuse a product with a sum that is not written as one operation, and integers
wrap on purpose, where TRITON_DEBUG would trap."""

CLAMP = 120.0
"""Largest distance: e^-120 is 2^-24 of the least ULP, 2^-149."""

UNIT_ROUNDOFF = 2.0**-24
_INTERPRETED = tl.constexpr(INTERPRETED)
_SCALE = tl.constexpr(64)
_LOG2E = tl.constexpr(float.fromhex("0x1.715476p+0"))
_ROUNDER = tl.constexpr(1.5 * 2.0**23)
"""Adding this number rounds to an integer, which is then in the low bits."""
_LN2_HIGH = tl.constexpr(float.fromhex("0x1.62e4p-1"))
_LN2_MIDDLE = tl.constexpr(float.fromhex("0x1.7f7ep-20"))
_LN2_LOW = tl.constexpr(float.fromhex("-0x1.c610cap-37"))


def _two_parts(k: int) -> tuple[tl.constexpr, tl.constexpr]:
    """1 / k! as two float32."""
    exact = Fraction(1, math.factorial(k))
    high = float(np.float32(float(exact)))
    return tl.constexpr(high), tl.constexpr(float(np.float32(float(exact - Fraction(high)))))


_C2, _C2_LOW = _two_parts(2)
_C3, _C3_LOW = _two_parts(3)
_C4, _C4_LOW = _two_parts(4)
_C5, _C5_LOW = _two_parts(5)
_C6, _C6_LOW = _two_parts(6)
_C7, _C7_LOW = _two_parts(7)
_C8, _C9, _C10, _C11, _C12 = (_two_parts(k)[0] for k in range(8, 13))


def error(*, precise: bool) -> float:
    """Largest relative error of ``exp_minus``, but for its underflow: 10 u^2, or the error of the float32 terms."""
    return 10 * UNIT_ROUNDOFF**2 if precise else 2.0**-37.7


@jit
def _interpreted_fused(a: tl.tensor, b: tl.tensor, c: tl.tensor) -> tl.tensor:
    return (a.to(tl.float64) * b.to(tl.float64) + c.to(tl.float64)).to(tl.float32)


@jit
def fused(a: tl.tensor, b: tl.tensor, c: tl.tensor) -> tl.tensor:
    """Float32 a b + c, rounded once; Triton 3.6 interprets its own fused operation with two roundings."""
    return _interpreted_fused(a, b, c) if _INTERPRETED else tl.fma(a, b, c)


@jit
def two_sum(a: tl.tensor, b: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """The rounded value of a + b, and the exact rest."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@jit
def fast_two_sum(a: tl.tensor, b: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Returns the same as ``two_sum`` if |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


@jit
def product(a: tl.tensor, a_low: tl.tensor, b: tl.tensor, b_low: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """(a + a_low) (b + b_low), not renormalized: within 11 u^2 where |a_low| <= 2.5 u |a| and |b_low| <= u |b|."""
    high = a * b
    low = fused(a_low, b, fused(a, b, -high))
    return high, fused(a, b_low, low)


@jit
def add_to(
    a: tl.tensor,
    a_low: tl.tensor,
    a_rest: tl.tensor,
    a_weighted: tl.tensor,
    b: tl.tensor,
    b_low: tl.tensor,
    b_rest: tl.tensor,
    b_weighted: tl.tensor,
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """Adds two sums of three parts, of which only the third is rounded, and two plain sums; for ``tl.reduce``."""
    high, carried = two_sum(a, b)
    low, rest = two_sum(a_low, b_low)
    low, more = two_sum(low, carried)
    return high, low, (a_rest + b_rest) + (rest + more), a_weighted + b_weighted


@jit
def row_sums(a: tl.tensor, a_low: tl.tensor, weighted: tl.tensor) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """Sums over the second axis of a + a_low, in three parts, and of ``weighted``.

    The interpreter calls a user's reduction function for each element, so there the same additions are made in halves.
    """
    rest = tl.zeros_like(a)
    if _INTERPRETED:
        while a.shape[1] > 1:
            halves = [a.shape[0], a.shape[1] // 2, 2]
            a, other = tl.split(tl.reshape(a, halves))
            a_low, other_low = tl.split(tl.reshape(a_low, halves))
            rest, other_rest = tl.split(tl.reshape(rest, halves))
            weighted, other_weighted = tl.split(tl.reshape(weighted, halves))
            a, a_low, rest, weighted = add_to(a, a_low, rest, weighted, other, other_low, other_rest, other_weighted)
        rows = [a.shape[0]]
        a, a_low = tl.reshape(a, rows), tl.reshape(a_low, rows)
        rest, weighted = tl.reshape(rest, rows), tl.reshape(weighted, rows)
    else:
        a, a_low, rest, weighted = tl.reduce((a, a_low, rest, weighted), 1, add_to)
    return a, a_low, rest, weighted


@jit
def inverse(high: tl.tensor, low: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """1 / (high + low) within 7 u^2, normalized, for sums in [2^-20, 2^20] with |low| <= u |high|.

    One Newton step brings the quotient within 1.1 u, whatever the division; the rest of 1 is then exact in float32.
    """
    one = tl.full(high.shape, 1.0, tl.float32)
    near = 1.0 / high
    near = fused(near, fused(-near, high, one), near)
    rest = fused(-near, low, fused(-near, high, one))
    near, low = fast_two_sum(near, near * fused(rest, rest, rest))
    return near, low


@jit
def _step(
    p: tl.tensor, p_low: tl.tensor, g: tl.tensor, g_low: tl.tensor, HIGH: tl.constexpr, LOW: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Makes one step of Horner's rule, p g + (HIGH + LOW), where |HIGH| >= |p g|."""
    high, low = product(p, p_low, g, g_low)
    total, rest = fast_two_sum(tl.full(g.shape, HIGH, tl.float32), high)
    return total, rest + (low + LOW) if LOW != 0.0 else rest + low


@jit
def _constant(like: tl.tensor, value: tl.constexpr) -> tl.tensor:
    return tl.full(like.shape, value, tl.float32)


@jit
def exp_minus(distance: tl.tensor, distance_low: tl.tensor, PRECISE: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """2^64 e^-(distance + distance_low) within ``error`` and 2^-150, for distances in [0, CLAMP].

    Both parts of the argument must be the rounded value and the exact rest. exp(0) is exactly 1. The parts of the result
    are not renormalized: the second is at most 2.5 u of the first, and a multiple of 2^-149.
    """
    shifted = fused(distance, _constant(distance, _LOG2E), _constant(distance, _ROUNDER))
    n = shifted - _ROUNDER
    # Exact: a multiple of 2^-25 that is less than 1/2, and a product of 8 and 16 bits.
    g, rest = two_sum(fused(n, _constant(n, _LN2_HIGH), -distance), n * _LN2_MIDDLE)
    g, more = two_sum(g, -distance_low)
    g, g_low = fast_two_sum(g, fused(n, _constant(n, _LN2_LOW), rest) + more)
    if PRECISE:
        p = fused(_constant(g, _C12), g, _constant(g, _C11))
        p = fused(p, g, _constant(g, _C10))
        p = fused(p, g, _constant(g, _C9))
        p = fused(p, g, _constant(g, _C8))
        p = fused(p, g, _constant(g, _C7))
        p, low = _step(p, _constant(g, _C7_LOW), g, g_low, _C6, _C6_LOW)
        p, low = _step(p, low, g, g_low, _C5, _C5_LOW)
        p, low = _step(p, low, g, g_low, _C4, _C4_LOW)
    else:
        p = fused(_constant(g, _C10), g, _constant(g, _C9))
        p = fused(p, g, _constant(g, _C8))
        p = fused(p, g, _constant(g, _C7))
        p = fused(p, g, _constant(g, _C6))
        p = fused(p, g, _constant(g, _C5))
        p, low = _step(p, _constant(g, _C5_LOW), g, g_low, _C4, _C4_LOW)
    p, low = _step(p, low, g, g_low, _C3, _C3_LOW)
    p, low = _step(p, low, g, g_low, _C2, _C2_LOW)
    # 1 + g + g^2 p: the products' errors weigh less than in two more steps of Horner's rule.
    p, low = product(p, low, g, g_low)
    p, low = product(p, low, g, g_low)
    total, rest = fast_two_sum(_constant(g, 1.0), g)
    total, more = fast_two_sum(total, p)
    low = (rest + more) + (g_low + low)
    power = ((127 + _SCALE) << 23) - (shifted.to(tl.int32, bitcast=True) << 23)
    power = power.to(tl.float32, bitcast=True)
    return total * power, low * power
