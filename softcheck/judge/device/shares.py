# ruff: noqa: N803 - kernels name compile-time constants in capitals, as Triton does
"""Errors in ULPs as shares of their bounds, and what puts a row in doubt, in the fewest operations: the parts of ``scan``.

r is in hand as ``small``, float32 r * 2^UP_EXPONENT * 2^(2 - p): the last factor makes the inverse of its ULP, p the
precision, what its inverted exponent says. The bounds are those of softcheck.judge.bounds, within a relative 2^-19.8.
"""

import triton.language as tl

from softcheck.judge.device._jit import jit
from softcheck.judge.device.elements import bound_in_ulps, ratio

_EXPONENT = tl.constexpr(0x7F800000)
_SIGN = tl.constexpr(0x80000000)
_NEAR = tl.constexpr(4)
"""Units in the last place of a float32: so far below a power of two, and one less above, its binade is in doubt."""
LEAST_APART = tl.constexpr((2 * _NEAR.value) << 9)
_HALF_AN_ULP = tl.constexpr(0x3EFFF2E5)
"""The float32 0.4999."""


@jit
def own_errors(
    logit: tl.tensor, peak: tl.tensor, slope: tl.tensor, exponential: tl.tensor, PRECISE: tl.constexpr
) -> tl.tensor:
    """A of each element, float32, in units of 1 (PRECISE) or of ``slope``; -0 for the maxima, whose sign tells them.

    For formats of up to 11 bits the exponential's error is added to the peak before the logit is subtracted, which costs at
    most half a unit in the last place of the peak: 2^-9 in the units of A where the peak is within 2^15 of 0, where the
    bound, half an ULP and b r, changes by a relative 2^-19.8. Beyond, logits other than the maximum are at least 2^4 below
    it, and r is small.
    """
    if PRECISE:
        below = peak - logit
        own = tl.where(below == 0, -0.0, slope * below + exponential)
    else:
        own = tl.where(logit == peak, -0.0, (peak + exponential / slope) - logit)
    return own


@jit
def per_ulp_of(
    small: tl.tensor, MIN_EXPONENT: tl.constexpr, PRECISION: tl.constexpr, UP_EXPONENT: tl.constexpr
) -> tl.tensor:
    """2^-UP_EXPONENT / ulp(r) as float32."""
    # The inverted exponent is 255 less the exponent: as a float32's own, that of 2 / small, and so of 2^(p-1) / r.
    inverted = ~small.to(tl.int32, bitcast=True) & _EXPONENT
    return tl.minimum(inverted, (126 + PRECISION - MIN_EXPONENT - UP_EXPONENT) << 23).to(tl.float32, bitcast=True)


@jit
def places(small: tl.tensor) -> tl.tensor:
    """uint32 values of LEAST_APART or more where r is surely in the binade of ``small``, far from its ends."""
    # Without the exponent, and wrapping: what lies just below a power comes out as small as what lies just above.
    return (small.to(tl.uint32, bitcast=True) + _NEAR) << 9


@jit
def apart(small: tl.tensor, own: tl.tensor) -> tl.tensor:
    """As ``places``; also of maxima, of which ``small`` is known to be in the binade of r."""
    return places(small) | (own.to(tl.uint32, bitcast=True) & _SIGN)


@jit
def flushed(error: tl.tensor, minus_output: tl.tensor) -> tl.tensor:
    """int32 values >= 0 where an output is 0 and half an ULP or more off, or negative; -output is +0 for an output of 0."""
    far = error.to(tl.int32, bitcast=True) - _HALF_AN_ULP
    return tl.minimum(far, minus_output.to(tl.int32, bitcast=True))


@jit
def shares(
    difference: tl.tensor,
    error: tl.tensor,
    small: tl.tensor,
    per_ulp: tl.tensor,
    own: tl.tensor,
    unit: tl.tensor,
    row_part: tl.tensor,
    underflow: tl.tensor,
    PRECISION: tl.constexpr,
    ROUNDS: tl.constexpr,
    UNDERFLOWS: tl.constexpr,
    FAR: tl.constexpr,
    MORE_TERMS: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Errors as shares of their bounds, and the cost of rounding to the format in ULPs, both float32.

    ``error`` is in ULPs and ``difference`` is the error times 2^UP_EXPONENT, ``unit`` that of ``own``, ``row_part`` the part
    of B that all elements of a row share, ``underflow`` tau times 2^UP_EXPONENT.
    """
    up: tl.constexpr = 2.0 ** (PRECISION - 2)
    if FAR or MORE_TERMS:
        b = own * unit + row_part
        bound, rounding = bound_in_ulps(
            b, (small * up) * per_ulp, underflow * per_ulp, ROUNDS, UNDERFLOWS, FAR, MORE_TERMS
        )
        share = ratio(error, bound, NVIDIA)
    elif ROUNDS:
        # 0.5 + 0.5 b + r (e^b - 1), with b (1 + b/2) for e^b - 1 and only the row's part in the brackets: b is so small,
        # and the rest of it, where r is not, that they differ by a relative 2^-20.
        rounding = 0.5 + 0.5 * (own * unit + row_part)
        grown = (1.0 + 0.5 * row_part) * up
        bound = (own * (unit * grown) + row_part * grown) * (small * per_ulp + 0.5 / up)
        bound += underflow * per_ulp + 0.5 if UNDERFLOWS else 0.5
        share = ratio(error, bound, NVIDIA)
    else:
        # float32, so that ``unit`` is 1: r (b + b^2 / 2) + tau, with the powers of own rather than of b, so that no element
        # needs b itself.
        rounding = tl.full(own.shape, 0.5, tl.float32)
        grown = own * (own * (0.5 * up) + (1.0 + row_part) * up) + (row_part + 0.5 * row_part * row_part) * up
        share = ratio(tl.abs(difference), grown * small + underflow, NVIDIA)
    return share, rounding
