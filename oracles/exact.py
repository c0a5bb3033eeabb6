"""Softmax with mpmath at any precision, and its correct rounding to a format.

All numbers live in a private mpmath context; the global one is neither read nor changed.

Error at P working bits, for n columns: subtractions are exact; mpmath computes exp with 14 guard bits and rounds once,
so that its result is well within the 4 units of 2^-P relatively that are allowed here; the denominator, at least 1, is
summed from terms cut off at 2^-P, hence within (n + 4) 2^-P relatively; the division rounds once. In all less than
``(n + 16) 2^-P`` relatively, second-order terms included.
"""

from dataclasses import dataclass, replace
from typing import Any

import mpmath
import numpy as np

from oracles._binades import settle
from oracles._rows import FAR, Groups, group, single_row, start
from oracles.formats import Bits, Format, Values
from oracles.reference import FullyMasked, Reference

MAX_PRECISION = 1 << 17
"""Working bits beyond which ``round_row`` gives up."""

_REFERENCE_BITS = 160
_CONTEXT: Any = mpmath.mp.clone()


@dataclass(frozen=True, slots=True)
class Rounded:
    """A correctly rounded row and what it took."""

    bits: Bits
    """Bit patterns, shape [columns]."""
    precision: int
    """Working bits of the last pass; 0 where no pass was needed."""
    raises: int
    """Number of times that the precision had to be doubled."""


@dataclass(frozen=True, slots=True)
class _Approximation:
    """The number mantissa * 2^exponent, close to one softmax."""

    mantissa: int
    exponent: int


def softmax(values: Values, *, fully_masked: FullyMasked = "nan") -> Reference:
    """Softmax of each row of a float64 matrix [rows, columns], from at least 160 working bits.

    ``relative_error`` is 2^-105: 2^-106 for what two float64 leave, and a share for the working precision. Elements
    further than 1200 below the maximum are given as 0 with relative error 1. Every element lies in the binade of the exact
    value, and an exact power of two has ``relative_error`` 0.

    Raises ValueError where ``values`` is not a float64 matrix.
    """
    reference, ordinary = start(values, fully_masked)
    precision = _REFERENCE_BITS + values.shape[1].bit_length()
    for row in ordinary:
        groups = group(values[row])
        near = groups.distances <= FAR
        results = _approximate(groups, np.flatnonzero(near).tolist(), precision)
        high, low, exponent = np.zeros(len(near)), np.zeros(len(near)), np.zeros(len(near), dtype=np.int64)
        for index, result in results.items():
            high[index], low[index], exponent[index] = _split(result)
        reference.high[row, groups.columns] = high[groups.member]
        reference.low[row, groups.columns] = low[groups.member]
        reference.exponent[row, groups.columns] = exponent[groups.member]
        reference.relative_error[row, groups.columns] = np.where(near, 2.0**-105, 1.0)[groups.member]
    settle(values, reference, ordinary)
    return replace(reference, settled=True)


def round_row(row: Values, fmt: Format, fully_masked: FullyMasked = "nan") -> Rounded:
    """Softmax of a 1-D float64 row, rounded to nearest with ties to even: Ziv's strategy (ACM TOMS 17, 1991).

    The working precision starts at the format's precision plus 10 bits and doubles until both ends of every element's
    interval round alike. Equal logits, the only rows with rational results (Lindemann and Weierstrass), are rounded from
    the fraction 1/n. The maxima of other rows are known to lie below 1/c for c copies, which decides them where 1/c is
    a boundary and the rest of the row is too small for any precision. NaN is the format's positive quiet NaN.

    Raises ValueError where ``row`` is not a 1-D float64 array and ArithmeticError where ``MAX_PRECISION`` does not suffice.
    """
    reference, ordinary = start(single_row(row), fully_masked)
    quiet_nan = fmt.exponent_mask | (1 << (fmt.precision - 2))
    bits = np.where(np.isnan(reference.high[0]), fmt.storage.type(quiet_nan), fmt.storage.type(0))
    if not len(ordinary):
        return Rounded(bits, 0, 0)
    groups = group(row)
    rounded, precision, raises = round_groups(groups, fmt)
    bits[groups.columns] = np.array(rounded, dtype=fmt.storage)[groups.member]
    return Rounded(bits, precision, raises)


def round_groups(groups: Groups, fmt: Format) -> tuple[list[int], int, int]:
    """Bit pattern of every group's softmax, the last working precision, and the number of raises; see ``round_row``."""
    peak_copies = int(groups.counts[-1])
    if len(groups.values) == 1:
        return [_round_quotient(1, peak_copies, fmt)], 0, 0
    decided: dict[int, int] = {}
    slack = int(groups.counts.sum()) + 16
    precision = fmt.precision + 10 + slack.bit_length()
    raises = 0
    while True:
        undecided = [i for i in range(len(groups.values)) if i not in decided]
        for index, result in _approximate(groups, undecided, precision).items():
            # mpmath strips trailing zeros, so the mantissa may be shorter than its precision.
            mantissa, exponent = result.mantissa << precision, result.exponent - precision
            margin = result.mantissa * slack + 1
            lower = round_binary(mantissa - margin, exponent, fmt)
            upper = round_binary(mantissa + margin, exponent, fmt)
            if index == len(groups.values) - 1:
                upper = min(upper, _round_below_quotient(peak_copies, fmt))
            if lower == upper:
                decided[index] = lower
        if len(decided) == len(groups.values):
            return [decided[i] for i in range(len(decided))], precision, raises
        precision *= 2
        raises += 1
        if precision > MAX_PRECISION:
            raise ArithmeticError(
                f"{precision // 2} bits do not decide the rounding to {fmt.name} of {len(groups.values) - len(decided)} "
                f"distinct logits; the ceiling is oracles.exact.MAX_PRECISION = {MAX_PRECISION}, raise it"
            )


def round_binary(mantissa: int, exponent: int, fmt: Format) -> int:
    """Bit pattern of mantissa * 2^exponent >= 0 rounded to nearest, ties to even. The value must not overflow."""
    least = fmt.min_exponent - fmt.precision + 1
    if mantissa <= 0 or mantissa.bit_length() + exponent < least - 1:
        return 0
    quantum = max(mantissa.bit_length() + exponent - fmt.precision, least)
    shift = quantum - exponent
    if shift <= 0:
        steps = mantissa << -shift
    else:
        steps, rest = mantissa >> shift, mantissa & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        steps += rest > half or (rest == half and steps & 1 == 1)
    # The hidden bit carries into the exponent field, and so does a significand that rounded up to 2^p.
    return ((quantum - least) << (fmt.precision - 1)) + steps


def _round_quotient(numerator: int, denominator: int, fmt: Format) -> int:
    """Bit pattern of a fraction: a truncated quotient whose last bit tells whether anything was cut off."""
    extra = denominator.bit_length() + fmt.precision + 8
    quotient, rest = divmod(numerator << extra, denominator)
    return round_binary(quotient << 1 | (rest > 0), -extra - 1, fmt)


def _round_below_quotient(denominator: int, fmt: Format) -> int:
    """Bit pattern of a number below 1/denominator by an infinitesimal."""
    extra = denominator.bit_length() + fmt.precision + 8
    quotient, rest = divmod(1 << extra, denominator)
    # One bit less than an exact quotient; a truncated one is already followed by something above zero.
    return round_binary((quotient << 1 | 1) - (2 if rest == 0 else 0), -extra - 1, fmt)


def _approximate(groups: Groups, wanted: list[int], precision: int) -> dict[int, _Approximation]:
    """Softmax of the wanted groups; the relative error is the one of the module's text."""
    with _CONTEXT.workprec(precision):
        maximum = _exact(groups.maximum)
        terms = [_CONTEXT.exp(_CONTEXT.fsub(x, maximum, exact=True)) for x in map(_exact, groups.values.tolist())]
        fixed = sum(count * _fixed(term, precision) for term, count in zip(terms, groups.counts.tolist(), strict=True))
        denominator = _CONTEXT.ldexp(_CONTEXT.mpf(fixed), -precision)
        quotients = {index: terms[index] / denominator for index in wanted}
    return {index: _Approximation(int(q.man), int(q.exp)) for index, q in quotients.items()}


def _exact(value: float) -> Any:
    """A float64 as an mpmath number, whatever the working precision."""
    mantissa, denominator = value.as_integer_ratio()
    return _CONTEXT.make_mpf(mpmath.libmp.from_man_exp(mantissa, 1 - denominator.bit_length()))


def _fixed(value: Any, precision: int) -> int:
    """floor(value * 2^precision) of a positive number."""
    shift = int(value.exp) + precision
    mantissa = int(value.man)
    if mantissa.bit_length() + shift <= 0:
        return 0
    return mantissa << shift if shift >= 0 else mantissa >> -shift


def _split(value: _Approximation) -> tuple[float, float, int]:
    """high, low and exponent with high in [0.5, 1]; dividing integers rounds correctly, so low is within 2^-106."""
    bits = value.mantissa.bit_length()
    high = value.mantissa / (1 << bits)
    rest = (value.mantissa << 53) - (int(high * 2.0**53) << bits)
    return high, rest / (1 << (bits + 53)), bits + value.exponent
