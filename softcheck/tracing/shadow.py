"""Shadows: what the lanes of an interpreted tensor are exactly, computed beside the kernel in more precision.

A shadow lives in numpy's ``longdouble`` (64 bits of significand on x86, 113 on other Linux machines), so that an exact
figure errs by less than 2^-10 ULP of a float64. A lane is a constant, holds data of one row, or is absent: a masked lane
of a load holds no column, whatever it loads, and enters no exact maximum and no exact sum.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Wide = np.longdouble

CONSTANT, DATA, ABSENT = 0, 1, 2

PARTS = ("exact", "state", "row", "columns", "shift")
"""The arrays of a shadow."""

Kind = Literal[
    "constant", "logit", "maximum", "shifted", "exponential", "factor", "sum", "reciprocal", "quotient", "other"
]
"""The role of a tensor in a softmax. ``maximum`` is every combination of maxima and constants, ``factor`` its exponential."""

LINEAR = frozenset({"constant", "logit", "maximum", "shifted"})
"""Kinds that are sums of logits, maxima and constants."""
POWERS = frozenset({"exponential", "factor", "sum", "reciprocal", "quotient"})
"""Kinds that are products and sums of exponentials."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """The exact values of a tensor's lanes and their origin; every array has the tensor's shape.

    ``shift`` is, in a kind of ``LINEAR``, what has been subtracted from a logit, and in one of ``POWERS`` the number s for
    which e^s times the value no longer depends on any maximum. Two sums of exponentials may be added only if their shifts
    are equal, else one of them was not rescaled.
    """

    exact: Array
    state: Array
    row: Array
    """Row of a lane with data, or of the load that a masked lane belongs to; -1 of a constant."""
    columns: Array
    """The set of columns of a lane, of dtype object: integers with one bit for each column."""
    shift: Array
    kind: Kind

    @property
    def has_data(self) -> bool:
        """True if a lane depends on the traced rows."""
        return bool((self.state == DATA).any())

    def each(self, move: Callable[[Array], Array]) -> "Shadow":
        """The shadow of a tensor whose lanes were moved; ``move`` applies the movement to any array of the shape."""
        return Shadow(**{name: move(getattr(self, name)) for name in PARTS}, kind=self.kind)

    def columns_of(self, row: int) -> int:
        """The columns on which the lanes with data of a row depend."""
        return union_of(self.columns[(self.state == DATA) & (self.row == row)])


def constant(values: Array) -> Shadow:
    """The shadow of values that depend on no row."""
    exact = np.asarray(values, dtype=Wide)
    state, row, columns = (np.full(exact.shape, *each) for each in ((CONSTANT, np.int8), (-1, np.int64), (0, object)))
    return Shadow(exact, state, row, columns, -exact, "constant")


def restarted(values: Array, operands: Sequence[Shadow]) -> Shadow:
    """The shadow of an operation that is not followed: its result counts as exact, with the columns of all operands."""
    rows = np.unique(np.concatenate([s.row[s.state == DATA] for s in operands]))
    columns = union_of(np.concatenate([s.columns[s.state == DATA] for s in operands]))
    exact = np.asarray(values, dtype=Wide)
    return Shadow(
        exact,
        np.full(exact.shape, DATA, np.int8),
        np.full(exact.shape, rows[0] if len(rows) == 1 else -1, np.int64),
        np.full(exact.shape, columns, object),
        np.zeros(exact.shape, Wide),
        "other",
    )


def as_sets(columns: Array) -> Array:
    """Columns, -1 for none, as sets."""
    sets = np.empty(columns.size, dtype=object)
    sets[:] = [1 << column if column >= 0 else 0 for column in columns.ravel().tolist()]
    return sets.reshape(columns.shape)


def union_of(sets: Array) -> int:
    """The union of sets of columns."""
    return int(np.bitwise_or.reduce(sets.ravel(), initial=0))


def in_words(columns: int) -> str:
    """A set of columns in words, such as ``columns 0 to 127``."""
    if columns == 0:
        return "no column"
    runs = [(run.start(), run.end() - 1) for run in re.finditer("1+", f"{columns:b}"[::-1])]
    if len(runs) > 3:
        return f"{columns.bit_count()} of columns {runs[0][0]} to {runs[-1][1]}"
    said = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)
    return f"{'column' if columns.bit_count() == 1 else 'columns'} {said}"


def ends_of(columns: int) -> tuple[int, int] | None:
    """The first and the last column of a set; None for an empty one."""
    return ((columns & -columns).bit_length() - 1, columns.bit_length() - 1) if columns else None
