# ruff: noqa: N803 - kernels name compile-time constants in capitals, as Triton does
"""Device functions for single elements and rows: the exact answer in ULPs, its bound, and row denominators.

The definitions are those of softcheck.operations.ulp and softcheck.operations.bounds. Errors are computed in float64. Bounds are
compared with a margin, and are computed in float32. ULPs as float32 carry a factor 2^64 or its inverse, so that none
leaves the range: the least ULP is 2^-149.
"""

import triton.language as tl

from softcheck.judge.device._jit import jit
from softcheck.judge.device.exp64 import from_high_word, high_word

_EXPONENT = tl.constexpr(0x7FF00000)
_MANTISSA_OF_FLOAT32 = tl.constexpr(0x7FFFFF)
_EXPONENT_OF_FLOAT32 = tl.constexpr(0x7F800000)
_MANTISSA = tl.constexpr((1 << 52) - 1)
_BIAS = tl.constexpr(1023)


@jit
def binade(r: tl.tensor, MIN_EXPONENT: tl.constexpr) -> tl.tensor:
    """Biased exponent max(floor(log2 r), emin) of r >= 0, in place in a high word."""
    return tl.maximum(high_word(r) & _EXPONENT, (MIN_EXPONENT + _BIAS) << 20)


@jit
def inverse_ulp(exponent: tl.tensor, PRECISION: tl.constexpr) -> tl.tensor:
    """1 / ulp(r) as float64, from ``binade``."""
    # 2046 + p - 1 does not fit its place as a signed number; the difference does, and int32 wraps.
    return from_high_word(-exponent + (((_BIAS * 2 + PRECISION - 1) << 20) - (1 << 32)))


@jit
def ulp_up(exponent: tl.tensor, PRECISION: tl.constexpr) -> tl.tensor:
    """ulp(r) * 2^64 as float32, from ``binade``."""
    word = exponent - ((_BIAS + PRECISION - 1 - 127 - 64) << 20)
    return (word << 3).to(tl.float32, bitcast=True)


@jit
def inverse_ulp_down(exponent: tl.tensor, PRECISION: tl.constexpr) -> tl.tensor:
    """2^-64 / ulp(r) as float32, from ``binade``."""
    word = -exponent + ((_BIAS + PRECISION - 1 + 127 - 64) << 20)
    return (word << 3).to(tl.float32, bitcast=True)


@jit
def logarithmic_error(below: tl.tensor, slope: tl.tensor, exponential: tl.tensor) -> tl.tensor:
    """A of an element, float32, from its distance below the row's maximum; 0 for the maximum."""
    return slope * below + tl.where(below > 0, exponential, 0.0)


@jit
def sum_allowance(additions: tl.tensor, twice: tl.tensor, weighted: tl.tensor, underflow_sum: tl.tensor) -> tl.tensor:
    """Largest |sum - 1| of a row before the results are rounded, float32; ``weighted`` is the mean of A."""
    logarithmic = additions + twice * weighted
    return logarithmic * (1.0 + 0.5 * logarithmic) + underflow_sum


@jit
def bound_in_ulps(
    b: tl.tensor,
    r_in_ulps: tl.tensor,
    underflow: tl.tensor,
    ROUNDS: tl.constexpr,
    UNDERFLOWS: tl.constexpr,
    FAR: tl.constexpr,
    MORE_TERMS: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Bound in ULPs, and the cost of rounding to the format in ULPs, both float32; see softcheck.operations.bounds.

    All arguments are float32: the error B before the rounding, r in ULPs, and tau in ULPs. With UNDERFLOWS, tau shows.
    With FAR, which needs ROUNDS, errors before the rounding may exceed half an ULP. ``Constants`` gives both flags.
    """
    growth = 1.0 + b * (0.5 + b * (1.0 / 6 + b * (1.0 / 24))) if MORE_TERMS else 1.0 + b * 0.5
    rounding = tl.full(b.shape, 0.5, tl.float32)
    if ROUNDS:
        rounding = 0.5 + 0.5 * b
    if ROUNDS and not FAR and not UNDERFLOWS:
        # This is the sum of both parts, in one operation less.
        bound = 0.5 + b * (0.5 + growth * r_in_ulps)
    else:
        bound = b * growth * r_in_ulps
        if UNDERFLOWS:
            bound += underflow
        if FAR:
            rounding = tl.where(bound > 0.5, 1.0 + b * growth, rounding)
        if ROUNDS:
            bound += rounding
    return bound, rounding


@jit
def bound_of(
    distance: tl.tensor,
    r_in_ulps: tl.tensor,
    exponent: tl.tensor,
    row_part: tl.tensor,
    slope: tl.tensor,
    exponential: tl.tensor,
    underflow: tl.tensor,
    PRECISION: tl.constexpr,
    ROUNDS: tl.constexpr,
    UNDERFLOWS: tl.constexpr,
    FAR: tl.constexpr,
    MORE_TERMS: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Computes ``bound_in_ulps`` of an element from its distance below the row's maximum.

    All arguments are float32: the distance, r in ULPs, and the model's constants. ``underflow`` is tau times 2^64,
    since tau itself may be a subnormal of few bits. The cap of 2 in softcheck.operations.bounds has no counterpart: models
    for which it matters are not supported here.
    """
    b = logarithmic_error(tl.minimum(distance, 800.0), slope, exponential) + row_part
    tau = underflow * inverse_ulp_down(exponent, PRECISION)
    bound, rounding = bound_in_ulps(b, r_in_ulps, tau, ROUNDS, UNDERFLOWS, FAR, MORE_TERMS)
    return bound, rounding


@jit
def ratio(error: tl.tensor, bound: tl.tensor, NVIDIA: tl.constexpr) -> tl.tensor:
    """The share |error| / bound in float32, within 2^-22, for bounds in [2^-100, 2^100]."""
    if NVIDIA:
        share = tl.inline_asm_elementwise(
            "{.reg .f32 r, a;\nrcp.approx.ftz.f32 r, $2;\nabs.f32 a, $1;\nmul.rn.f32 $0, a, r;}",
            "=r,r,r",
            [error, bound],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    else:
        share = tl.abs(error) / bound
    return share


@jit
def expm1_small(b: tl.tensor) -> tl.tensor:
    """exp(b) - 1 of float64 b in [0, 2^-3], within a relative 2^-24."""
    return b * (1.0 + b * (0.5 + b * (1.0 / 6 + b * (1.0 / 24 + b * (1.0 / 120 + b * (1.0 / 720))))))


@jit
def is_power_of_two(value: tl.tensor) -> tl.tensor:
    """True for float64 values > 0 in the normal range that are powers of two."""
    return (value.to(tl.int64, bitcast=True) & _MANTISSA) == 0


@jit
def inverse_denominator(
    total: tl.tensor, weighted_distance: tl.tensor, copies: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """1 / sum of exponentials, and True if the maxima's binade is in doubt.

    With c copies of the maximum, c a power of two, and any other finite logit, r of the maxima is below 1/c: the
    inverse is then taken one unit lower, as in oracles.float64. The exponentials' sum is at least c, since rounding is
    monotonic.
    """
    inverse = 1.0 / total
    others = is_power_of_two(total) & (weighted_distance > 0)
    below = (inverse.to(tl.int64, bitcast=True) - 1).to(tl.float64, bitcast=True)
    return tl.where(others, below, inverse), others & (copies != total)


@jit
def scaled_binade(small: tl.tensor, MIN_EXPONENT: tl.constexpr) -> tl.tensor:
    """Exponent bits of max(r, 2^emin) * 2^64, from r * 2^64 as float32."""
    return tl.maximum(small.to(tl.int32, bitcast=True) & _EXPONENT_OF_FLOAT32, (MIN_EXPONENT + 64 + 127) << 23)


@jit
def scaled_inverse_ulp(binade: tl.tensor, PRECISION: tl.constexpr) -> tl.tensor:
    """2^-64 / ulp(r) as float32, from ``scaled_binade``."""
    # The constant does not fit its place as a signed number; the difference does, and int32 wraps.
    return (((254 + PRECISION - 1) << 23) - (1 << 32) - binade).to(tl.float32, bitcast=True)


@jit
def is_power(small: tl.tensor) -> tl.tensor:
    """True for a float32 > 0 that is a power of two.

    The value that was rounded to it is then within a relative 2^-25 of the power.
    """
    return (small.to(tl.int32, bitcast=True) & _MANTISSA_OF_FLOAT32) == 0


@jit
def as_float32(value: tl.tensor, NVIDIA: tl.constexpr) -> tl.tensor:
    """Values of up to 32 bits as float32."""
    if NVIDIA and value.dtype == tl.bfloat16:
        # Two values at once, which lie in one register: ptxas needs another operation to tell them apart.
        wide = tl.inline_asm_elementwise(
            "shl.b32 $0, $2, 16;\nand.b32 $1, $2, 0xffff0000;",
            "=r,=r,r",
            [value],
            dtype=tl.float32,
            is_pure=True,
            pack=2,
        )
    else:
        wide = value.to(tl.float32)
    return wide


@jit
def truncated(value: tl.tensor, NVIDIA: tl.constexpr) -> tl.tensor:
    """Converts float64 values > 0 to float32, rounded toward zero, in the range of normal numbers."""
    if NVIDIA:
        cut = tl.inline_asm_elementwise(
            "cvt.rz.f32.f64 $0, $1;", "=r,d", [value], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        near = value.to(tl.float32)
        less = (near.to(tl.int32, bitcast=True) - 1).to(tl.float32, bitcast=True)
        cut = tl.where(near.to(tl.float64) > value, less, near)
    return cut


@jit
def leading(value: tl.tensor) -> tl.tensor:
    """-2^128 |v| as float32, truncated, of float64 values |v| in [2^-254, 1).

    The result holds the bits of v from the third bit of its exponent on. 0 gives 0. A value of at least 1 and below 2,
    infinite or NaN gives a value that is not finite. Beyond, the exponent wraps: for |v| in [2^(k - 256), 2^(k - 1))
    the result is -2^(128 - k) |v|, k a multiple of 256.
    """
    return (value.to(tl.int64, bitcast=True) >> 29).to(tl.int32).to(tl.float32, bitcast=True)


@jit
def quick_inverse(total: tl.tensor, NVIDIA: tl.constexpr) -> tl.tensor:
    """1 / total for float64 values in [2^-500, 2^500], within 2^-52; exact for powers of two."""
    if NVIDIA:
        near = tl.inline_asm_elementwise(
            "rcp.approx.ftz.f64 $0, $1;", "=d,d", [total], dtype=tl.float64, is_pure=True, pack=1
        )
        # Each Newton step squares the relative error, 2^-20 at first.
        near = tl.fma(near, tl.fma(-total, near, 1.0), near)
        inverse = tl.fma(near, tl.fma(-total, near, 1.0), near)
    else:
        inverse = 1.0 / total
    return inverse


@jit
def lies_near_power(r: tl.tensor, uncertainty: tl.tensor, MIN_EXPONENT: tl.constexpr) -> tl.tensor:
    """True for r >= 2^emin within the relative uncertainty of a power of two, on either side."""
    bits = r.to(tl.int64, bitcast=True)
    fraction = ((bits & _MANTISSA) | (_BIAS << 52)).to(tl.float64, bitcast=True)
    near = (fraction - 1.0 <= uncertainty) | (2.0 - fraction <= 2.0 * uncertainty)
    return near & (high_word(r) >= ((MIN_EXPONENT + _BIAS) << 20) - 1)
