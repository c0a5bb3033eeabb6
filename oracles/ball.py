"""Softmax and its logarithm in ball arithmetic (Arb through python-flint): every result carries a proven enclosure.

Logits enter exactly; each operation widens its ball by its own rounding (F. Johansson, "Arb: efficient
arbitrary-precision midpoint-radius interval arithmetic", IEEE Trans. Computers 66, 2017). python-flint has one working
precision per process; it is set only within these functions and restored.
"""

from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction

import flint
import numpy as np

from oracles._binades import MAX_PRECISION, settle
from oracles._enclosure import Ball, exponentials
from oracles._rows import FAR, Groups, group, single_row, start
from oracles.formats import Values
from oracles.reference import FullyMasked, Reference, RowClass, classify

_PRECISION = 128
_LEAST_SEEN = 2.0**-990
_UNLIMITED = Context(prec=MAX_PRECISION)
_SCALED_FROM = 600.0
"""Distance below the maximum from which results are scaled before their conversion, to keep clear of underflow."""


def softmax(values: Values, *, fully_masked: FullyMasked = "nan") -> Reference:
    """Softmax of each row of a float64 matrix [rows, columns].

    ``relative_error`` is 2^-106, for what two float64 leave of a midpoint, plus the row's largest relative radius:
    about 2^-105 in all. Elements further than 1200 below the maximum are given as 0 with relative error 1. Every element
    lies in the binade of the exact value, and an exact power of two has ``relative_error`` 0.

    Raises ValueError where ``values`` is not a float64 matrix.
    """
    reference, ordinary = start(values, fully_masked)
    with flint.ctx.workprec(_PRECISION):
        for row in ordinary:
            _fill(values[row], reference, int(row))
    settle(values, reference, ordinary)
    return replace(reference, settled=True)


def log_softmax(values: Values, *, fully_masked: FullyMasked = "nan") -> Reference:
    """Logarithm of the softmax of each row of a float64 matrix [rows, columns].

    A logit of -inf gives -inf, and so does a row of -inf alone if ``fully_masked`` is "zero"; a value below float64's range
    is -inf too. ``relative_error`` is that of ``softmax``, and 0 for a row's only finite logit; ``absolute_error`` is
    2^-1000, for logarithms that underflow. An element's side of a power of two is that of its midpoint: no row is known whose
    logarithms lie within 2^-100 of one without being one.

    Raises ValueError where ``values`` is not a float64 matrix.
    """
    reference, ordinary = start(values, fully_masked, -np.inf)
    with flint.ctx.workprec(_PRECISION):
        for row in ordinary:
            _fill_logarithms(values[row], reference, int(row))
    return replace(reference, absolute_error=2.0**-1000, settled=True)


def log_decimal(row: Values, column: int, digits: int = 20, *, fully_masked: FullyMasked = "nan") -> str:
    """The exact logarithm of the softmax of one element, rounded once to ``digits`` significant decimal digits, half to even.

    A special row gives "nan", or "-inf" where ``softmax`` gives 0, as a masked element does. A value too small for Arb's
    exponents gives "-0". Raises IndexError for a column that is not there, and ArithmeticError where the precision that the
    digits need passes ``MAX_PRECISION``.
    """
    probability = decimal(row, column, 2, fully_masked=fully_masked)
    if probability in ("nan", "0"):
        return "nan" if probability == "nan" else "-inf"
    groups = group(row)
    distance = Fraction(groups.maximum) - Fraction(float(row[column]))
    if groups.counts.sum() == 1:
        return "0"
    precision = 64 + 4 * digits
    while precision <= MAX_PRECISION:
        with flint.ctx.workprec(precision):
            ball = _logarithm(groups) + _ball(distance)
            if not ball > 0:
                # e^-d of a d so large that Arb gives an interval from 0 on.
                return "-0"
            # Scaled by a power of ten, so that its digits are few.
            power = (ball.log() / flint.arb(10).log()).mid().floor().unique_fmpz()
            scaled = ball * flint.arb(10) ** -power
            low, high = (_round_decimal(_fraction(end), digits) for end in (scaled.lower(), scaled.upper()))
        if low == high:
            return f"-{_shown(low[0], low[1] + int(power))}"
        precision *= 2
    raise ArithmeticError(
        f"{MAX_PRECISION} bits do not give {digits} decimal digits of column {column}; ask for another number of digits"
    )


def _ball(value: Fraction) -> Ball:
    """A dyadic rational as a ball."""
    return flint.arb(flint.fmpz(value.numerator)) / flint.arb(flint.fmpz(value.denominator))


def _logarithm(groups: Groups) -> Ball:
    """log(1 + T), T the sum of all exponentials but one of the maximum's."""
    terms, _ = exponentials(groups)
    others = flint.arb(int(groups.counts[-1]) - 1)
    for term, count in zip(terms[:-1], groups.counts[:-1].tolist(), strict=True):
        others += term * count
    return others.log1p()


def _fill_logarithms(row: Values, reference: Reference, index: int) -> None:
    groups = group(row)
    logarithm, maximum = _logarithm(groups), flint.arb(groups.maximum)
    balls = [(flint.arb(x) - maximum) - logarithm for x in groups.values.tolist()]
    highs = np.array([float(ball) for ball in balls])
    lows = [float(ball - high) if np.isfinite(high) else 0.0 for ball, high in zip(balls, highs.tolist(), strict=True)]
    # Of what is smaller, the absolute error says enough.
    seen = (
        ball
        for ball, high in zip(balls, highs.tolist(), strict=True)
        if abs(high) > _LEAST_SEEN and not ball.is_exact()
    )
    accuracy = min((ball.rel_accuracy_bits() for ball in seen), default=_PRECISION)
    reference.high[index, groups.columns] = highs[groups.member]
    reference.low[index, groups.columns] = np.array(lows)[groups.member]
    is_alone = groups.counts.sum() == 1
    reference.relative_error[index, groups.columns] = 0.0 if is_alone else 2.0**-106 + 2.0 ** (1 - accuracy)


def enclose(row: Values, precision: int = _PRECISION, *, fully_masked: FullyMasked = "nan") -> list[Ball]:
    """Balls that contain the softmax of a 1-D float64 row, one per column; NaN balls where the answer is NaN.

    ``precision`` is the working precision in bits; the relative radius is a few bits more than 2^-precision.
    """
    kind = classify(single_row(row))[0] if len(row) else RowClass.ORDINARY
    if kind != RowClass.ORDINARY:
        special = flint.arb(0) if kind == RowClass.FULLY_MASKED and fully_masked == "zero" else flint.arb.nan()
        return [special] * len(row)
    balls = [flint.arb(0)] * len(row)
    if len(row):
        groups = group(row)
        with flint.ctx.workprec(precision):
            terms, denominator = exponentials(groups)
            inverse = 1 / denominator
            results = [term * inverse for term in terms]
        for column, member in zip(groups.columns, groups.member, strict=True):
            balls[column] = results[member]
    return balls


def decimal(row: Values, column: int, digits: int = 20, *, fully_masked: FullyMasked = "nan") -> str:
    """The exact softmax of one element, rounded once to ``digits`` significant decimal digits, half to even.

    Special rows give "nan" or "0"; a masked element gives "0". Raises IndexError for a column that is not there, and
    ArithmeticError where the precision that the digits need passes ``MAX_PRECISION``.
    """
    if not 0 <= column < len(row):
        raise IndexError(f"column {column} of a row of {len(row)}; expected 0 to {len(row) - 1}")
    kind = classify(single_row(row))[0]
    if kind != RowClass.ORDINARY:
        return "0" if kind == RowClass.FULLY_MASKED and fully_masked == "zero" else "nan"
    if np.isneginf(row[column]):
        return "0"
    groups = group(row)
    asked = int(np.searchsorted(groups.values, row[column]))
    if len(groups.values) == 1:
        return _shown(*_round_decimal(Fraction(1, int(groups.counts[0])), digits))
    precision = 64 + 4 * digits
    while precision <= MAX_PRECISION:
        rounded = _try_decimal(groups, asked, digits, precision)
        if rounded is not None:
            return _shown(*rounded)
        precision *= 2
    raise ArithmeticError(
        f"{MAX_PRECISION} bits do not give {digits} decimal digits of column {column}; ask for another number of digits"
    )


def _fill(row: Values, reference: Reference, index: int) -> None:
    groups = group(row)
    terms, denominator = exponentials(groups)
    inverse = 1 / denominator
    distances = groups.distances
    near = int(np.searchsorted(-distances, -FAR))
    scaled = int(np.searchsorted(-distances, -_SCALED_FROM))
    shifts = np.zeros(len(terms), dtype=np.int64)
    shifts[near:scaled] = (distances[near:scaled] / np.log(2.0)).astype(np.int64)
    results = [
        term * inverse * (flint.arb(2) ** shift)
        for term, shift in zip(terms[near:scaled], shifts[near:scaled].tolist(), strict=True)
    ]
    results += [term * inverse for term in terms[scaled:]]
    highs = [float(ball) for ball in results]
    lows = [float(ball - high) for ball, high in zip(results, highs, strict=True)]
    accuracy = min(ball.rel_accuracy_bits() for ball in results)
    high, low = np.zeros((2, len(terms)))
    high[near:], low[near:] = highs, lows
    # Arb counts a relative radius below 2^-accuracy; relative to r instead of the midpoint it is less than twice that.
    error = np.where(np.arange(len(terms)) < near, 1.0, 2.0**-106 + 2.0 ** (1 - accuracy))
    reference.high[index, groups.columns] = high[groups.member]
    reference.low[index, groups.columns] = low[groups.member]
    reference.exponent[index, groups.columns] = -shifts[groups.member]
    reference.relative_error[index, groups.columns] = error[groups.member]


def _try_decimal(groups: Groups, asked: int, digits: int, precision: int) -> tuple[int, int] | None:
    """Coefficient and decimal exponent of the rounded softmax of one group, or None where this precision can't tell."""
    with flint.ctx.workprec(precision):
        _, denominator = exponentials(groups)
        logarithm = flint.arb(float(groups.values[asked])) - flint.arb(groups.maximum) - denominator.log()
        # Scaling by a power of ten inside the exponent keeps the numbers small, however small the result is.
        power = (logarithm / flint.arb(10).log()).mid().floor().unique_fmpz()
        scaled = (logarithm - flint.arb(10).log() * power).exp()
        # A wide ball has ends of astronomical size, not to be written out.
        if not scaled.is_finite() or scaled.rel_accuracy_bits() < 2:
            return None
        low, high = _fraction(scaled.lower()), _fraction(scaled.upper())
    if asked == len(groups.values) - 1:
        # The maximum's share of c copies is below 1/c, maybe by less than any precision shows. Where 1/c is halfway
        # between decimals, its digits are those of a power of five, so that the tie goes down, to ...2, like what is below.
        high = min(high, Fraction(1, int(groups.counts[asked])) / Fraction(10) ** int(power))
    lower, upper = _round_decimal(low, digits), _round_decimal(high, digits)
    return (lower[0], lower[1] + int(power)) if lower == upper else None


def _fraction(exact: Ball) -> Fraction:
    mantissa, exponent = (int(part) for part in exact.man_exp())
    return Fraction(mantissa) * Fraction(2) ** exponent


def _round_decimal(value: Fraction, digits: int) -> tuple[int, int]:
    """Coefficient of ``digits`` digits and decimal exponent of a positive number, rounded half to even."""
    exponent = len(str(value.numerator)) - len(str(value.denominator)) - digits
    while value >= Fraction(10) ** (exponent + digits):
        exponent += 1
    scaled = value / Fraction(10) ** exponent
    coefficient = round(scaled)
    return (coefficient // 10, exponent + 1) if coefficient == 10**digits else (coefficient, exponent)


def _shown(coefficient: int, exponent: int) -> str:
    text = str(coefficient)
    leading = exponent + len(text) - 1
    if leading < -6:
        return f"{text[0]}.{text[1:]}e{leading}" if len(text) > 1 else f"{text}e{leading}"
    return format(Decimal(coefficient).scaleb(exponent, _UNLIMITED), "f")
