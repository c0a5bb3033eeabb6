# ruff: noqa: N803 - kernels name compile-time constants in capitals, as Triton does
"""exp(-d) in float64 for d >= 0, in few operations.

e^-d = 2^(n + f) with n the integer nearest to -d log2(e) and |f| <= 1/2; 2^f = 1 + f q(f), q the polynomial with the least
largest relative error (Remez), each coefficient then rounded to float64. Multiplying by 2^n is one integer addition. Where the
degree is odd, 1 + f q(f) is the polynomial of least relative error without that condition, divided by its value at 0, where its error
is largest: divided, it is twice that, and of one sign.

For 0 <= d <= ``CLAMP`` the relative error is at most ``truncation(degree) + u (4 + d/2)``, u = 2^-53:

- of the polynomial, ``truncation``;
- of Horner's rule with fused operations: u for the last addition, and less than u for all before it, since each is
  multiplied by |f| ln 2 < 0.35 at least once more;
- of log2(e) rounded to float64, 0.13 u d; the fused multiplication rounds f within 2^-55, a relative 0.35 u.

exp(0) is exactly 1. The interpreter rounds twice in a fused operation, and so adds up to u d.
"""

import triton.language as tl

from softcheck.judge.device._jit import jit

CLAMP = 700.0
"""Largest distance, up to 2^-11 more. Larger distances give e^-700 = 2^-1009.9: too small to count, too large to
underflow."""

_TRUNCATION: dict[int, float] = {7: 2.0**-33.5, 10: 2.0**-51.5}

CLAMP_WORD = tl.constexpr(0x4085E000)
"""The high word of the float64 700."""
_MINUS_LOG2E = tl.constexpr(-float.fromhex("0x1.71547652b82fep+0"))
_ROUNDER = tl.constexpr(1.5 * 2.0**52)
"""Adding this number rounds to an integer, which is then in the low bits."""


def truncation(degree: int) -> float:
    """Largest relative error of the polynomial of this degree (7 or 10) on |f| <= 1/2 + 2^-30."""
    return _TRUNCATION[degree]


@jit
def high_word(value: tl.tensor) -> tl.tensor:
    """The leading 32 bits of float64 values, as int32: sign, exponent, and the first 20 bits after the point."""
    return (value.to(tl.int64, bitcast=True) >> 32).to(tl.int32)


@jit
def from_high_word(word: tl.tensor) -> tl.tensor:
    """float64 values with these leading 32 bits and zeros after them."""
    return (word.to(tl.int64) << 32).to(tl.float64, bitcast=True)


@jit
def with_high_word(value: tl.tensor, word: tl.tensor) -> tl.tensor:
    """float64 values with these leading 32 bits, followed by their own low bits."""
    low = value.to(tl.int64, bitcast=True) & 0xFFFFFFFF
    return ((word.to(tl.int64) << 32) | low).to(tl.float64, bitcast=True)


@jit
def clamped(distance: tl.tensor, LARGEST: tl.constexpr = CLAMP_WORD) -> tl.tensor:
    """min(distance, 700), up to 2^-11 more, for float64 values >= 0 or +inf.

    LARGEST is the high word of another limit in place of 700. One integer minimum replaces a comparison and two
    selections.
    """
    return with_high_word(distance, tl.minimum(high_word(distance), LARGEST))


@jit
def _constant(like: tl.tensor, value: tl.constexpr) -> tl.tensor:
    """Returns a float64 constant in the shape of a tensor: a bare number would be rounded to float32 first."""
    return tl.full(like.shape, value, tl.float64)


@jit
def _step(p: tl.tensor, f: tl.tensor, coefficient: tl.constexpr) -> tl.tensor:
    """Makes one step of Horner's rule, rounded once."""
    return tl.fma(p, f, _constant(f, coefficient))


@jit
def exp_minus(
    distance: tl.tensor,
    DEGREE: tl.constexpr,
    NVIDIA: tl.constexpr,
    SCALE: tl.constexpr = 0,
    LEAST: tl.constexpr = 0,
    DISTANCE_SCALE: tl.constexpr = 0,
) -> tl.tensor:
    """2^SCALE e^-d of float64 values 2^-DISTANCE_SCALE d, within the bound of the module's docstring.

    d lies in [0, 700 + 2^-11]; the degree is 7 or 10. With LEAST, values up to 2^30 are taken: where e^-d is below
    2^LEAST sqrt(2), the result is instead within a factor of sqrt(2) of 2^LEAST. Infinite values then give NaN, or a
    large number.
    """
    minus_log2e = _constant(distance, _MINUS_LOG2E * 2.0**DISTANCE_SCALE)
    shifted = tl.fma(distance, minus_log2e, _constant(distance, _ROUNDER + SCALE))
    # Negated on purpose: an operand's sign costs an operation in some versions of Triton.
    minus_n = _constant(distance, _ROUNDER + SCALE) - shifted
    f = tl.fma(distance, minus_log2e, minus_n)
    if DEGREE == 7:
        p = _step(_constant(f, 1.5201921594966723e-05), f, 0.00015469291142525051)
        p = _step(p, f, 0.0013333922564052394)
        p = _step(p, f, 0.009618027254036241)
        p = _step(p, f, 0.05550410353660655)
        p = _step(p, f, 0.24022651199078093)
        p = _step(p, f, 0.6931471807550071)
    else:
        p = _step(_constant(f, 7.111758220783707e-09), f, 1.0210506232001245e-07)
        p = _step(p, f, 1.3215235638914948e-06)
        p = _step(p, f, 1.5252647748947976e-05)
        p = _step(p, f, 0.00015403530800806375)
        p = _step(p, f, 0.0013333558246478453)
        p = _step(p, f, 0.009618129107380727)
        p = _step(p, f, 0.0555041086643466)
        p = _step(p, f, 0.24022650695910472)
        p = _step(p, f, 0.6931471805599516)
    p = _step(p, f, 1.0)
    # The integer's low bits, in place in the high word: half of a 64-bit addition.
    power = shifted.to(tl.int64, bitcast=True).to(tl.int32)
    if LEAST != 0:
        power = tl.maximum(power, SCALE + LEAST)
    if NVIDIA:
        # Triton's shift and addition make ptxas copy the low word.
        scaled = tl.inline_asm_elementwise(
            "{.reg .b32 l, h;\nmov.b64 {l, h}, $1;\nmad.lo.u32 h, $2, 1048576, h;\nmov.b64 $0, {l, h};}",
            "=d,d,r",
            [p, power],
            dtype=tl.float64,
            is_pure=True,
            pack=1,
        )
    else:
        scaled = with_high_word(p, high_word(p) + (power << 20))
    return scaled
