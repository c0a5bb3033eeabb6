"""Layouts of tensors of any number of dimensions by name: the values of the axis ``layout``. Imports no torch."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Bits, Format, encode
from softcheck.cases.case import Layout

PACKED, EXPANDED, ONE_OF_SEVERAL = "packed", "expanded", "one of several"
_STEP = 33
"""An odd number of elements between columns: rows of 2000 columns take more than 2^16 elements of memory."""

Strides = Callable[[Sequence[int]], list[int]]
"""Returns the strides of a tensor of a shape."""


def dense(
    shape: Sequence[int], order: Sequence[int] = (), *, step: int = 1, gaps: Mapping[int, int] = MappingProxyType({})
) -> list[int]:
    """Returns the strides of dimensions in an order, the outermost first, with ``gaps`` behind some by number."""
    found = [0] * len(shape)
    for place in reversed(order or range(len(shape))):
        found[place] = step
        step = step * max(1, shape[place]) + gaps.get(place, 0)
    return found


def exchanged(shape: Sequence[int], first: int, second: int, **more: Any) -> list[int]:
    """Returns the strides of dimensions of which two are exchanged in memory."""
    order = [*range(len(shape))]
    order[first], order[second] = order[second], order[first]
    return dense(shape, order, **more)


def _behind_rows(shape: Sequence[int], gap: int) -> dict[int, int]:
    return {len(shape) - 2: gap}


_OF_MATRICES: Mapping[str, Strides] = {
    "transposed": lambda shape: exchanged(shape, -2, -1),
    "padded by 3": lambda shape: dense(shape, gaps={len(shape) - 1: 3}),
    EXPANDED: lambda shape: [0, *dense(shape)[1:]],
    "of twice as many columns": lambda shape: dense(shape, gaps={len(shape) - 1: shape[-1]}),
    "every second column": lambda shape: dense(shape, step=2),
    f"every {_STEP}rd column": lambda shape: dense(shape, step=_STEP),
    "a transposed slice": lambda shape: exchanged(shape, -2, -1, gaps=_behind_rows(shape, 5)),
    "transposed with gaps": lambda shape: exchanged(shape, -2, -1, step=3, gaps=_behind_rows(shape, 5)),
    "overlapping rows": lambda shape: [*dense(shape[:-1], step=4), 1],
    "expanded columns": lambda shape: [*dense(shape[:-1]), 0],
}
_OF_HEADS = 3
"""Layouts that stand for all where the rows are heads, whose operands lie apart in all of them."""
_OF_MORE: Mapping[str, tuple[int, Strides]] = {
    "reversed": (3, lambda shape: dense(shape, range(len(shape))[::-1])),
    "first two exchanged": (3, lambda shape: exchanged(shape, 0, 1)),
    "first apart": (3, lambda shape: dense(shape, gaps={1: 5 * shape[-1]})),
    # The logits of each sequence's last token: a dimension of one, beside which others lie.
    ONE_OF_SEVERAL: (3, lambda shape: dense(shape, gaps={1: 2 * shape[-1]})),
    "second two exchanged": (4, lambda shape: exchanged(shape, 1, 2)),
    "second apart": (4, lambda shape: dense(shape, gaps={2: 5 * shape[-1]})),
}
"""Layouts of dimensions before the row and the one before it, with the fewest dimensions that have them."""
SHARED = frozenset({EXPANDED, "overlapping rows", "expanded columns"})
"""Layouts whose elements share memory."""


def names(dimensions: int, *, is_strided: bool, has_heads: bool = False) -> tuple[str, ...]:
    """Returns the layouts of tensors of at most so many dimensions, the packed one first."""
    of_matrices = (*_OF_MATRICES,)[: _OF_HEADS if has_heads else None]
    return (PACKED, *of_matrices, *(name for name in _OF_MORE if fits(name, dimensions))) if is_strided else (PACKED,)


def fits(name: str, dimensions: int) -> bool:
    """True if tensors of so many dimensions have such a layout of their own."""
    return name == PACKED or dimensions >= (_OF_MORE[name][0] if name in _OF_MORE else 2)


def weight(name: str) -> int:
    """Returns how many elements each of a tensor in such a layout counts for, by the memory that it takes."""
    return 4 if str(_STEP) in name else 1


def of_matrix(rows: int, columns: int, name: str, offset: int = 0) -> Layout:
    """Returns such a layout of a matrix."""
    row, column = _strides((rows, columns), name)
    return Layout(offset=offset) if name == PACKED else Layout(row_stride=row, column_stride=column, offset=offset)


@dataclass(frozen=True, slots=True)
class Laid:
    """A tensor in its storage, which holds NaN beside it."""

    storage: Bits
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    rows: Bits
    """The rows that it holds, [rows, columns]: equal ones where elements share memory."""
    places: NDArray[np.int64]
    """The place of each element in the storage, [rows, columns]."""


def laid(bits: Bits, leading: Sequence[int], place: int, name: str, fmt: Format, offset: int = 0) -> Laid:
    """Lays rows, [rows, columns], out as a tensor whose dimension ``place`` is the row and whose others are ``leading``.

    The tensor begins ``offset`` elements behind its storage.
    """
    columns = bits.shape[1]
    shape = [*leading]
    shape.insert(place % (len(leading) + 1), columns)
    strides = _strides(shape, name)
    index = offset + np.tensordot(strides, np.indices(shape), axes=1) if math.prod(shape) else np.zeros(shape, np.int64)
    places = np.moveaxis(index, place, -1).reshape(bits.shape)
    # A kernel that ignores strides reads on behind the last element.
    storage = np.full(int(index.max(initial=0)) + 1 + bits.size, encode(np.array([np.nan]), fmt)[0], dtype=fmt.storage)
    storage[places] = bits
    return Laid(storage, tuple(shape), tuple(strides), offset, storage[places], places)


def _strides(shape: Sequence[int], name: str) -> list[int]:
    if name == PACKED or not fits(name, len(shape)):
        return dense(shape)
    return _OF_MATRICES[name](shape) if name in _OF_MATRICES else _OF_MORE[name][1](shape)
