"""Errors in units in the last place, against an exact result that is never rounded to the output format.

Everything is computed in units of ulp(r), so that one scaling by a power of two per operand is the only work and no
rounding enters before the subtraction. docs/ulp.md holds the definition.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oracles.formats import FLOAT64, Format, Values
from oracles.reference import Reference

Flags = NDArray[np.bool_]

LARGEST = float(np.finfo(np.float64).max)
"""The largest ULP figure. Larger ones are clipped to it, so that sums and files never hold an infinity."""

_BIAS = 1023
_MANTISSA_BITS = 52
_MANTISSA = np.int64((1 << _MANTISSA_BITS) - 1)


@dataclass(frozen=True)
class Scaled:
    """The exact results r in units of their own ULP: |r| = (high + low) * 2^quantum, all of shape [rows, columns].

    ``high`` lies in [2^(p-1), 2^p) where r is at least 2^emin (it is 2^p where only ``low`` keeps r below), and in
    [0, 2^(p-1)) below. NaN where r is NaN.
    """

    fmt: Format
    high: Values
    low: Values
    quantum: NDArray[np.int64]
    relative_error: Values
    absolute_error: float
    negative: Flags | None
    """True where r is below 0; None if it is nowhere."""
    settled: bool
    """True if r's side of every power of two is known, as in the reference."""
    of_scale: Flags | None = None
    """True where the ULP is that of the operation's least scale, and not of a smaller r; None if it is nowhere."""

    def in_ulps(self, absolute: float | Values) -> Values:
        """Numbers in units of each ulp(r), shape [rows, columns]; infinite beyond float64."""
        with np.errstate(over="ignore"):
            return scale(np.atleast_2d(absolute), -self.quantum, self.fmt)

    @cached_property
    def ulp(self) -> Values:
        """The ULP of r, 2^quantum."""
        return scale(np.ones((1, 1)), self.quantum, self.fmt)

    @cached_property
    def uncertainty(self) -> Values:
        """The reference's own error bound on r, in ULPs; 0 where it is exact."""
        uncertainty = self.relative_error * self.high
        if self.absolute_error:
            uncertainty += self.in_ulps(self.absolute_error)
            uncertainty[self.relative_error == 0] = 0.0
        return uncertainty

    @cached_property
    def below_normal(self) -> Flags:
        """True where r < 2^emin, also where r is 0 or below float64's range."""
        least_normal = 2.0 ** (self.fmt.precision - 1)
        below: Flags = self.high <= least_normal
        if below.any():
            below &= (self.high < least_normal) | (self.low < 0)
        if self.of_scale is not None:
            below &= ~self.of_scale
        return below


def counts_as_power(fmt: Format) -> float:
    """Factor on an operation's scale before its ULP is taken: less than 2^-10 ULP below a power of two it counts as the power.

    A scale is a sum. Equal weights and values make it a power of two but for rounding, which differs from oracle to oracle.
    """
    return 1.0 + 2.0 ** -(fmt.precision + 10)


def least_quantum(fmt: Format) -> int:
    """Exponent of the least subnormal, emin - p + 1."""
    return fmt.min_exponent - fmt.precision + 1


def scale(values: Values, exponents: NDArray[np.int64], fmt: Format) -> Values:
    """``values * 2**exponents`` for exponents that occur in a format.

    The product is exact unless it leaves float64's range.
    """
    if fmt == FLOAT64:
        with np.errstate(over="ignore", under="ignore"):
            return np.ldexp(values, exponents)
    powers = ((exponents + _BIAS) << _MANTISSA_BITS).view(np.float64)
    return values * powers


def floor_log2(reference: Reference) -> NDArray[np.int64]:
    """floor(log2 |r|) of the exact r, shape [rows, columns]; without meaning where r is 0 or not finite.

    Where ``high`` is a power of two and ``low`` of the other sign, |r| lies in the binade below: the ULP halves there, and a judge
    that takes it from the rounded value reports half the error.
    """
    bits = np.ascontiguousarray(reference.high).view(np.int64)
    exponent = ((bits >> _MANTISSA_BITS) & 0x7FF) - _BIAS
    if reference.low.any():
        opposite = np.signbit(reference.low) != np.signbit(reference.high)
        exponent -= opposite & (reference.low != 0) & ((bits & _MANTISSA) == 0)
    subnormal_high = exponent < 1 - _BIAS
    if subnormal_high.any() and reference.exponent.any():
        _, exact = np.frexp(reference.high)
        exponent = np.where(subnormal_high, exact.astype(np.int64) - 1, exponent)
    return exponent + reference.exponent


def scaled(reference: Reference, fmt: Format, least_scale: Values | None = None) -> Scaled:
    """The reference in units of ulp(r) = 2^(max(floor(log2 |r|), emin) - p + 1).

    Where |r| is below ``least_scale``, [rows, columns], the unit is the ULP of that instead (``counts_as_power``). Multiplying
    by powers of two is exact, except that a result more than 2^1000 times smaller than the least subnormal may become 0.
    """
    floor = np.where(reference.high == 0, fmt.min_exponent, floor_log2(reference))
    least: int | NDArray[np.int64] = fmt.min_exponent
    if least_scale is not None:
        binade = np.frexp(least_scale * counts_as_power(fmt))[1].astype(np.int64) - 1
        least = np.where(least_scale > 0, binade, least).clip(min=fmt.min_exponent)
    quantum = np.maximum(floor, least) - (fmt.precision - 1)
    if reference.exponent.any():
        with np.errstate(under="ignore"):
            high = np.ldexp(reference.high, reference.exponent - quantum)
            low = np.ldexp(reference.low, reference.exponent - quantum)
    else:
        high = scale(reference.high, -quantum, fmt)
        low = scale(reference.low, -quantum, fmt) if reference.low.any() else np.zeros_like(high)
    negative = high < 0
    if negative.any():
        high, low = np.abs(high), np.where(negative, -low, low)
    signs = negative if negative.any() else None
    of_scale = None if least_scale is None else floor < least
    return Scaled(
        fmt, high, low, quantum, reference.relative_error, reference.absolute_error, signs, reference.settled, of_scale
    )


def scaled_error(output: Values, exact: Scaled) -> Values:
    """|y - r| / ulp(r), shape [rows, columns]; NaN where y or r is not finite, clipped at the largest float64.

    y / ulp(r) is exact or overflows, and the subtractions err by at most 2^-52 of the difference, since a difference
    that cancels is exact.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        error = scale(output, -exact.quantum, exact.fmt)
        if exact.negative is not None:
            np.negative(error, out=error, where=exact.negative)
        error -= exact.high
        error -= exact.low
        np.abs(error, out=error)
        np.minimum(error, LARGEST, out=error)
    error[~(np.isfinite(output) & np.isfinite(exact.high))] = np.nan
    return error


def flushed(output: Values, exact: Scaled) -> Flags:
    """True where a result was flushed to zero: y = 0 although r lies between half the least subnormal and 2^emin."""
    candidates = exact.below_normal
    if not candidates.any():
        return candidates
    rounds_up = (exact.high > 0.5) | ((exact.high == 0.5) & (exact.low > 0))
    lost: Flags = np.logical_and(candidates & rounds_up, output == 0)
    return lost


def error_as_if_flushing(error: Values, output: Values, exact: Scaled) -> Values:
    """ULP errors in a format without subnormals, whose 0 and 2^emin are one ULP apart.

    Outputs that are 0 or 2^emin where 0 <= r < 2^emin are measured with the spacing 2^emin, everything else as usual: a
    kernel that flushes can be compared with one that doesn't. An r too small for float64 and a masked element's 0 are
    such r too.
    """
    candidates = exact.below_normal
    if not candidates.any():
        return error
    native = candidates & ((output == 0) | (np.abs(output) == exact.fmt.least_normal))
    return np.where(native, error * 2.0 ** (1 - exact.fmt.precision), error)
