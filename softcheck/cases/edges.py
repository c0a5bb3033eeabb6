"""Numbers at which formats and exponentials change their behaviour. Imports neither torch nor triton."""

from oracles.formats import FLOAT16, FLOAT64, Format

LN2 = 0.6931471805599453

EXP_THRESHOLDS = (0.0, -87.0, -87.33, -87.34, -87.4, -88.0, -88.73, -103.0, -103.27, -103.28, -103.97, -103.98, -104.0)
"""Arguments around which exp in float32 turns subnormal, and zero."""

MAXIMUM_STEPS = (1.0, 20.0, 50.0, 88.0, 89.0, 104.0, 150.0, 1e4)
"""Growth of the maximum between tiles: within one rounding, across half of float32's range, at exp's thresholds of
underflow and overflow, and far beyond."""


def least_normal_distance(fmt: Format) -> float:
    """Distance below the maximum at which a logit's exponential is the least normal number, 2^emin."""
    return -fmt.min_exponent * LN2


def zero_distance(fmt: Format) -> float:
    """Distance below the maximum at which a logit's exponential is half the least subnormal and rounds to zero."""
    return (fmt.precision - fmt.min_exponent) * LN2


def subnormals(fmt: Format) -> tuple[float, ...]:
    """The least and the largest subnormal of both signs, the least normal number, and zeros."""
    least, largest = fmt.least_subnormal, fmt.least_normal - fmt.least_subnormal
    return least, -least, largest, -largest, fmt.least_normal, 0.0, -0.0


def exp_overflow(fmt: Format) -> float:
    """The logit from which exp overflows in the format, or in float32 if that is wider."""
    return {FLOAT16: 11.0903, FLOAT64: 709.783}.get(fmt, 88.7229)


def edge_patterns(fmt: Format) -> list[int]:
    """Patterns of the finite values at the format's edges, both signs, in order of magnitude."""
    least_normal = 1 << (fmt.precision - 1)
    largest = fmt.exponent_mask - 1
    one = (fmt.exponent_mask >> 1) & ~(least_normal - 1)
    magnitudes = [
        0,
        1,
        2,
        least_normal - 1,
        least_normal,
        least_normal + 1,
        one - 1,
        one,
        one + 1,
        largest - 1,
        largest,
    ]
    sign = 1 << (fmt.width - 1)
    return [pattern for magnitude in magnitudes for pattern in (magnitude, sign | magnitude)]
