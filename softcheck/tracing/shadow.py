"""Shadows: what the lanes of an interpreted tensor are exactly, computed beside the kernel in more precision.

A shadow lives in numpy's ``longdouble`` (64 bits of significand on x86, 113 on other Linux machines), so that an exact
figure errs by less than 2^-10 ULP of a float64. A lane is a constant, holds data of one row, or is absent: a masked lane
of a load holds no column, whatever it loads, and enters no exact maximum and no exact sum.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Wide = np.longdouble

CONSTANT, DATA, ABSENT = 0, 1, 2

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
    """The column of a lane: of dtype int64, -1 for none; or a set of columns: of dtype object, one bit for each."""
    shift: Array
    kind: Kind

    @property
    def has_data(self) -> bool:
        """True if a lane depends on the traced rows."""
        return bool((self.state == DATA).any())

    def each(self, move: Callable[[Array], Array]) -> "Shadow":
        """The shadow of a tensor whose lanes were moved; ``move`` applies the movement to any array of the shape."""
        exact, state, row, columns, shift = map(move, (self.exact, self.state, self.row, self.columns, self.shift))
        return Shadow(exact, state, row, columns, shift, self.kind)


def constant(values: Array) -> Shadow:
    """The shadow of values that depend on no row."""
    exact = np.asarray(values, dtype=Wide)
    nothing = np.full(exact.shape, -1, dtype=np.int64)
    return Shadow(exact, np.zeros(exact.shape, np.int8), nothing, nothing, -exact, "constant")


def restarted(values: Array, operands: list[Shadow]) -> Shadow:
    """The shadow of an operation that is not followed: its result counts as exact, with the columns of all operands."""
    exact = np.asarray(values, dtype=Wide)
    rows = np.unique(np.concatenate([s.row[s.state == DATA] for s in operands]))
    union = 0
    for shadow in operands:
        union |= union_of(shadow)
    sets = np.empty(exact.shape, dtype=object)
    sets[...] = union
    return Shadow(
        exact,
        np.full(exact.shape, DATA, np.int8),
        np.full(exact.shape, rows[0] if len(rows) == 1 else -1, np.int64),
        sets,
        np.zeros(exact.shape, Wide),
        "other",
    )


def as_sets(columns: Array) -> Array:
    """Columns as sets, one bit for each column."""
    if columns.dtype == object:
        return columns
    sets = np.empty(columns.size, dtype=object)
    sets[:] = [1 << column if column >= 0 else 0 for column in columns.ravel().tolist()]
    return sets.reshape(columns.shape)


def set_of(columns: Array) -> int:
    """The union of an array of columns or of sets of columns, one bit for each column."""
    if columns.dtype == object:
        return int(np.bitwise_or.reduce(columns.ravel(), initial=0))
    held = columns[columns >= 0]
    if held.size == 0:
        return 0
    flags = np.zeros(int(held.max()) + 1, dtype=np.bool_)
    flags[held] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def union_of(shadow: Shadow, row: int | None = None) -> int:
    """The columns on which the lanes with data depend, of one row or of all."""
    held = shadow.state == DATA
    if row is not None:
        held &= shadow.row == row
    return set_of(shadow.columns[held])


def in_words(columns: int) -> str:
    """A set of columns in words, such as ``columns 0 to 127``."""
    if columns == 0:
        return "no column"
    runs, at = [], 0
    while columns >> at:
        skipped = columns >> at
        first = at + (skipped & -skipped).bit_length() - 1
        length = (~(columns >> first) & ((columns >> first) + 1)).bit_length() - 1
        runs.append((first, first + length - 1))
        at = first + length
    if len(runs) > 3:
        return f"{columns.bit_count()} of columns {runs[0][0]} to {runs[-1][1]}"
    said = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)
    return f"{'column' if columns.bit_count() == 1 else 'columns'} {said}"


def ends_of(columns: int) -> tuple[int, int] | None:
    """The first and the last column of a set; None for an empty one."""
    return ((columns & -columns).bit_length() - 1, columns.bit_length() - 1) if columns else None
