"""What every oracle returns: softmax values with a stated error bound."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Values

FullyMasked = Literal["nan", "zero"]


@dataclass(frozen=True, slots=True)
class Reference:
    """Softmax of a matrix: ``(high + low) * 2**exponent`` per element, all arrays of shape [rows, columns].

    ``high`` is the float64 nearest to the scaled value and ``low`` what it leaves; the separate exponent keeps float64
    subnormal results from losing digits. The exact value r satisfies
    ``|r - (high + low) * 2**exponent| <= relative_error * r + absolute_error``, and is exactly this value where
    ``relative_error`` is 0. NaN in ``high`` means that the row's answer is NaN by the convention for special rows.

    Of c copies of a row's maximum, c a power of two, the value lies on the side of 1/c on which the exact one lies.
    """

    high: Values
    low: Values
    exponent: NDArray[np.int64]
    relative_error: Values
    absolute_error: float
    settled: bool = False
    """Whether every element, not the maxima alone, lies on the exact value's side of every power of two."""

    @property
    def values(self) -> Values:
        """The reference rounded to float64, shape [rows, columns]."""
        with np.errstate(under="ignore"):
            return np.ldexp(self.high + self.low, self.exponent)


class RowClass:
    """Classes of rows by their special values, as ``classify`` returns them."""

    ORDINARY = 0
    NOT_A_NUMBER = 1
    """Holds a NaN or a +inf: every output is NaN."""
    FULLY_MASKED = 2
    """Every logit is -inf: NaN or 0, as declared."""


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
