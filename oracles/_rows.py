"""Common parts of all oracles: checks of the input, special rows, and groups of equal logits."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Values
from oracles.reference import FullyMasked, Reference, RowClass, classify

FAR = 1200.0
"""Distance below the row's maximum from which the multi-precision oracles give 0 with relative error 1.

e^-1200 < 2^-1731 is 2^657 times smaller than the least subnormal of float64: no format can tell it from 0.
"""


@dataclass(frozen=True, slots=True)
class Groups:
    """The distinct finite logits of an ordinary row, ascending, with their multiplicities."""

    values: Values
    counts: NDArray[np.int64]
    columns: NDArray[np.intp]
    """Columns that hold a finite logit."""
    member: NDArray[np.intp]
    """Index of the logit in ``values``, for each of these columns."""

    @property
    def maximum(self) -> float:
        """The row's maximum."""
        return float(self.values[-1])

    @property
    def distances(self) -> Values:
        """Maximum minus logit, rounded to float64; may overflow to inf."""
        with np.errstate(over="ignore"):
            return self.maximum - self.values


def group(row: Values) -> Groups:
    """Groups of a 1-D ordinary row: no NaN, no +inf, at least one finite logit."""
    columns = np.flatnonzero(row > -np.inf)
    values, member, counts = np.unique(row[columns], return_inverse=True, return_counts=True)
    return Groups(values, counts.astype(np.int64), columns, member)


def start(values: Values, fully_masked: FullyMasked, of_zero: float = 0.0) -> tuple[Reference, NDArray[np.intp]]:
    """A reference with the special rows filled in, and the indices of the rows that are left to compute.

    Every other element holds ``of_zero``, the result for a probability of 0.

    Raises ValueError where ``values`` is not a float64 matrix or ``fully_masked`` is neither "nan" nor "zero".
    """
    if values.ndim != 2 or values.dtype != np.float64:
        raise ValueError(
            f"an oracle got an array of shape {values.shape} and dtype {values.dtype}, expected a float64 matrix "
            "[rows, columns]; decode bit patterns with oracles.formats.decode"
        )
    if fully_masked not in ("nan", "zero"):
        raise ValueError(f"fully_masked is {fully_masked!r}; expected 'nan' or 'zero'")
    classes = classify(values)
    reference = Reference(
        high=np.full(values.shape, of_zero),
        low=np.zeros(values.shape),
        exponent=np.zeros(values.shape, dtype=np.int64),
        relative_error=np.zeros(values.shape),
        absolute_error=0.0,
    )
    reference.high[classes == RowClass.NOT_A_NUMBER] = np.nan
    if fully_masked == "nan":
        reference.high[classes == RowClass.FULLY_MASKED] = np.nan
    ordinary = np.flatnonzero(classes == RowClass.ORDINARY) if values.shape[1] else np.empty(0, dtype=np.intp)
    return reference, ordinary


def single_row(row: Values) -> Values:
    """Returns the row as a matrix of one row. Raises ValueError if it is not a 1-D float64 array."""
    if row.ndim != 1 or row.dtype != np.float64:
        raise ValueError(f"got an array of shape {row.shape} and dtype {row.dtype}, expected a 1-D float64 row")
    return row[None, :]
