"""The result of every oracle: softmax values with a stated error bound."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Values

FullyMasked = Literal["nan", "zero"]


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
