"""The result of every oracle: softmax values with a stated error bound."""

import math
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Values

FullyMasked = Literal["nan", "zero"]


def no_nan(what: str, *numbers: Values | float) -> None:
    """Raises ArithmeticError where an error or a bound is NaN: every comparison with it is false, so that it hides what it is for."""
    if any(np.isnan(each).any() for each in numbers):
        raise ArithmeticError(f"{what} is NaN: this is a fault of softcheck, not of the kernel; please report it")


@dataclass(frozen=True, slots=True)
class Reference:
    """Softmax of a matrix: ``(high + low) * 2**exponent`` per element, all arrays of shape [rows, columns].

    ``high`` is the float64 nearest to the scaled value, and ``low`` the remainder. The separate exponent keeps float64
    subnormal results from losing digits. The exact value r satisfies ``|r - (high + low) * 2**exponent| <=
    relative_error * r + absolute_error``, and is exactly this value if ``relative_error`` is 0. NaN in ``high`` means
    that the row's answer is NaN by the convention for special rows.

    If a row's maximum has c copies, c a power of two, their value lies on the same side of 1/c as the exact value.
    """

    high: Values
    low: Values
    exponent: NDArray[np.int64]
    relative_error: Values
    absolute_error: float
    settled: bool = False
    """True if every element, not the maxima alone, lies on the exact value's side of every power of two."""

    def __post_init__(self) -> None:
        """Raises ArithmeticError for an error that is NaN."""
        no_nan("an exact answer's own error", np.max(self.relative_error, initial=0.0), self.absolute_error)

    @property
    def values(self) -> Values:
        """The reference rounded to float64, shape [rows, columns]."""
        with np.errstate(under="ignore"):
            return np.ldexp(self.high + self.low, self.exponent)

    def known(self, where: NDArray[np.bool_], answers: Values) -> "Reference":
        """Returns the reference with answers that are exact where flags say so; both can be broadcast to [rows, columns]."""
        return replace(
            self,
            high=np.where(where, answers, self.high),
            low=np.where(where, 0.0, self.low),
            relative_error=np.where(where, 0.0, self.relative_error),
        )

    def decimal(self, row: int, column: int, digits: int) -> str:
        """An element in decimal, rounded once to so many significant digits; ``<1e-300`` where an error is all that is known."""
        high, low, exponent = (float(part[row, column]) for part in (self.high, self.low, self.exponent))
        if not math.isfinite(high):
            return str(high)
        if high == 0:
            return "<1e-300" if np.broadcast_to(self.relative_error, self.high.shape)[row, column] else "0"
        exact = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
        value = exact.multiply(exact.add(Decimal(high), Decimal(low)), exact.power(Decimal(2), int(exponent)))
        rounded = Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[]).plus(value).normalize()
        return f"{rounded:f}" if -7 <= rounded.adjusted() < digits else f"{rounded:e}"


class RowClass:
    """Classes of rows by their special values, as ``classify`` returns them."""

    ORDINARY = 0
    NOT_A_NUMBER = 1
    """Holds a NaN or a +inf: every output is NaN."""
    FULLY_MASKED = 2
    """Every logit is -inf: NaN or 0, as declared."""


_UNKNOWN = 2.0**1000
"""Stands for all larger errors, so that an answer's error is finite."""


def with_error(high: Values, low: Values, off: Values) -> tuple[Values, Values, Values]:
    """Returns the two parts of answers and their relative errors, from their absolute errors ``off``, all of one shape.

    A relative error says nothing of 0. So an answer that may be 0 is given by the size of its error, with its own sign, and is off by up
    to twice that. Answers that are not finite have no error.
    """
    is_finite = np.isfinite(high)
    off = np.where(is_finite, np.minimum(off, _UNKNOWN), 0.0)
    unsure = np.abs(high) < off
    high, low = np.where(unsure, np.copysign(off, high), high), np.where(unsure, 0.0, low)
    relative = np.divide(off, np.abs(high), out=np.zeros(high.shape), where=is_finite & (high != 0))
    return high, low, np.where(unsure, 2.0, relative)


def stated(high: Values, off: Values, low: Values | float = 0.0, absolute: float = 0.0) -> Reference:
    """Returns answers in two parts as a reference, from their absolute errors ``off``, as ``with_error`` has them."""
    high, low, relative = with_error(high, low + np.zeros(high.shape), off)
    return Reference(high, low, np.zeros(high.shape, dtype=np.int64), relative, absolute)


def classify(values: Values) -> NDArray[np.int8]:
    """Class of each row of a [rows, columns] matrix, shape [rows]. Rows of no columns are ordinary."""
    # The maximum alone tells: it propagates NaN, and it is infinite exactly where a row is special.
    with np.errstate(invalid="ignore"):
        peak = values.max(axis=1, initial=-np.inf)
    not_a_number = np.isnan(peak) | np.isposinf(peak)
    masked = np.isneginf(peak) & (values.shape[1] > 0)
    classes = np.full(values.shape[0], RowClass.ORDINARY, dtype=np.int8)
    classes[masked] = RowClass.FULLY_MASKED
    classes[not_a_number] = RowClass.NOT_A_NUMBER
    return classes
