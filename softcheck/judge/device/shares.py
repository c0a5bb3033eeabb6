# ruff: noqa: N803 - kernels name compile-time constants in capitals, as Triton does
"""Errors in ULPs as shares of their bounds, and tests for rows in doubt: the parts of ``scan``, in few operations.

r is given as ``small``, float32 r * 2^(UP + 2 - p), where p is the precision. 2^(2 - p) makes its inverted exponent
that of the inverse of its ULP, and 2^UP keeps differences in the range of normal numbers. The bounds are those of
softcheck.operations.bounds, within a relative 2^-19.8.
"""

import triton.language as tl

from softcheck.judge.device._jit import jit
from softcheck.judge.device.elements import bound_in_ulps, leading, ratio, truncated

_EXPONENT = tl.constexpr(0x7F800000)
_SIGN = tl.constexpr(0x80000000)
_BELOW = tl.constexpr(5)
"""Units in the last place of a float32. The binade of r is in doubt if r is at most so far below a power of two, or
next above it."""
LEAST_APART = tl.constexpr((_BELOW.value + 1) << 9)


@jit
def own_errors(below: tl.tensor, slope: tl.tensor, exponential: tl.tensor, NVIDIA: tl.constexpr) -> tl.tensor:
    """A of each element, computed from -d, float32, in units of -``slope``; 0 for the maxima alone."""
    # 1 for all but the maxima, without a comparison and a selection.
    if NVIDIA:
        other = tl.inline_asm_elementwise(
            "mul.sat.f32 $0, $1, 0fFE800000;", "=r,r", [below], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        other = tl.minimum(below * -(2.0**126), 1.0)
    return below - other * (exponential / slope)


@jit
def measured(
    exponentials: tl.tensor,
    rounded: tl.tensor,
    inverse: tl.tensor,
    output: tl.tensor,
    UP: tl.constexpr,
    PRECISION: tl.constexpr,
    MIN_EXPONENT: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """Returns ``small``, 2^-UP / ulp(r), and the errors, of size 2^UP |output - r| and in ULPs; all float32.

    ``rounded`` is ``leading`` of the float64 ``exponentials``; ``output`` is float32. If UP is 64, the first errors are
    output - r. If UP is 128, their sign has no meaning, and errors of outputs outside of (-1, 2) may be small: rows
    with such outputs must be left for another reason. UP 128 takes fewer conversions, which is faster if the
    exponentials' polynomial is short.
    """
    # For maxima r is exactly this inverse, and truncated it is in the same binade. For all other elements ``small`` is
    # within a relative 2^-22 + 2^-24 of r below and 2^-24 above, and so in the same binade if it is ``apart`` from the
    # next.
    small = rounded * (truncated(inverse, NVIDIA) * -(2.0 ** (UP - 128 + 2 - PRECISION)))
    # The inverted exponent is 255 less the exponent: as a float32's own, that of 2 / small, and so of 2^(p-1) / r.
    inverted = ~small.to(tl.int32, bitcast=True) & _EXPONENT
    least: tl.constexpr = (126 + PRECISION - MIN_EXPONENT - UP) << 23
    per_ulp = tl.minimum(inverted, least).to(tl.float32, bitcast=True)
    if UP == 128:
        difference = leading(tl.fma(exponentials, -inverse, output.to(tl.float64)))
    else:
        difference = tl.fma(exponentials, -inverse * 2.0**UP, (output * 2.0**UP).to(tl.float64)).to(tl.float32)
    if NVIDIA:
        # The bits are integers to Triton, which would take an operation to clear their sign.
        error = tl.inline_asm_elementwise(
            "{.reg .f32 a;\nabs.f32 a, $1;\nmul.rn.f32 $0, a, $2;}",
            "=r,r,r",
            [difference, per_ulp],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    else:
        error = tl.abs(difference) * per_ulp
    return small, per_ulp, difference, error


@jit
def places(small: tl.tensor) -> tl.tensor:
    """uint32 values of at least LEAST_APART where r is surely in the binade of ``small``, far from its ends."""
    # Without the exponent, and wrapping: a value just below a power is as small as a value just above one.
    return (small.to(tl.uint32, bitcast=True) + _BELOW) << 9


@jit
def apart(small: tl.tensor, own: tl.tensor) -> tl.tensor:
    """Returns ``places``, and LEAST_APART or more for maxima, whose ``small`` is known to be in the binade of r."""
    return places(small) | tl.where(own == 0, _SIGN, 0).to(tl.uint32)


@jit
def flushed(error: tl.tensor, output: tl.tensor) -> tl.tensor:
    """1 where an output, float32, is 0 and at least half an ULP off, or has a negative sign; else 0."""
    bits = output.to(tl.int32, bitcast=True)
    return tl.where((bits < 0) | ((bits == 0) & (error >= 0.4999)), 1, 0)


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

    The first four arguments come from ``measured``. ``unit`` is the unit of ``own``, ``row_part`` the part of B that
    all elements of a row share, ``underflow`` tau times 2^UP.
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
        # float32: r (b + b^2 / 2) + tau, with the powers of own rather than of b, so that no element needs b itself.
        rounding = tl.full(own.shape, 0.5, tl.float32)
        grown = own * (own * (0.5 * up * unit * unit) + (1.0 + row_part) * up * unit)
        grown += (row_part + 0.5 * row_part * row_part) * up
        share = ratio(difference, grown * small + underflow, NVIDIA)
    return share, rounding
