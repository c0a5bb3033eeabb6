"""The memory of a traced call: which address holds which column of which row, and what kernels stored where."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from softcheck.tracing.shadow import ABSENT, CONSTANT, DATA, PARTS, Array, Kind, Shadow, Wide, as_sets, constant


class Region(NamedTuple):
    """The addresses of a matrix: element (i, j) is at ``base + i * row_stride + j * column_stride``, all in bytes."""

    base: int
    shape: tuple[int, int]
    strides: tuple[int, int]

    @classmethod
    def of(cls, matrix: torch.Tensor) -> "Region":
        """The addresses of a tensor [rows, columns]."""
        size = matrix.element_size()
        rows, columns = matrix.shape
        return cls(matrix.data_ptr(), (rows, columns), (matrix.stride(0) * size, matrix.stride(1) * size))

    def places(self, addresses: Array) -> tuple[Array, Array]:
        """Rows and columns of addresses, -1 where no element lies. Rows that share memory count as the first."""
        offset = addresses.astype(np.int64) - self.base
        (rows, columns), (by_row, by_column) = self.shape, self.strides
        if by_column > by_row > 0:
            column, rest = np.divmod(offset, by_column)
            row, rest = np.divmod(rest, by_row)
        else:
            row, rest = np.divmod(offset, by_row) if by_row else (np.zeros_like(offset), offset)
            column, rest = np.divmod(rest, max(1, by_column))
        inside = (rest == 0) & (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        return np.where(inside, row, -1), np.where(inside, column, -1)


class Memory:
    """The input's elements, and shadows of what kernels stored elsewhere."""

    def __init__(self, view: torch.Tensor, values: Array, rows: set[int]) -> None:
        """``view`` is the input [rows, columns], ``values`` its numbers; loads of none of the ``rows`` have no shadow."""
        self._values = values.astype(Wide)
        self._view = view
        self._regions = [(Region.of(view), self._values)]
        self._wanted = np.isin(np.arange(len(values)), list(rows))
        self._stored: list[tuple[Array, Array, Shadow]] = []
        """Addresses of each store, ascending, with what was stored there and its shadow."""
        self.matrices: dict[int, Region] = {}
        """Tensors of the input's shape that kernels were given, by address; the output is one of them."""

    def know(self, argument: Any) -> None:
        """Looks at a kernel's argument. A copy of the input's finite values, whatever its dtype, is as good as the input."""
        if not isinstance(argument, torch.Tensor) or argument.numel() != self._view.numel():
            return
        if not argument.is_contiguous() and argument.shape != self._view.shape:
            return
        matrix = argument if argument.shape == self._view.shape else argument.view(self._view.shape)
        region = Region.of(matrix)
        self.matrices[region.base] = region
        if all(region != known for known, _ in self._regions):
            values = matrix.detach().double().numpy().astype(Wide)
            # Where a mask hides logits that are -inf, a kernel may be given anything.
            shown = np.isfinite(self._values)
            if shown.any() and np.array_equal(values[shown], self._values[shown]):
                self._regions.append((region, values))

    def load(self, addresses: Array, mask: Array, values: Array) -> Shadow | None:
        """The shadow of a load, or None if it reads nothing of the traced rows."""
        addresses, mask = np.broadcast_arrays(addresses, mask)
        row, column = np.full(addresses.shape, -1, np.int64), np.full(addresses.shape, -1, np.int64)
        exact = values.astype(Wide)
        for region, numbers in self._regions:
            rows, columns = region.places(addresses)
            found = (rows >= 0) & (row < 0)
            row, column = np.where(found, rows, row), np.where(found, columns, column)
            exact = np.where(found & mask, numbers[rows, columns], exact)
        held = mask & (row >= 0)
        if not (held & self._wanted[row]).any():
            return self._reload(addresses, mask, values)
        exact = np.where(mask, exact, np.nan)
        state = np.where(held, DATA, np.where(mask, CONSTANT, ABSENT)).astype(np.int8)
        row = _of_masked(np.where(held, row, -1), mask)
        columns = as_sets(np.where(held, column, -1))
        return Shadow(exact, state, row, columns, np.zeros(row.shape, Wide), "logit")

    def store(self, addresses: Array, mask: Array, values: Array, shadow: Shadow) -> None:
        """Keeps the shadow of what was stored, for a kernel that reads it again. All have one shape."""
        if mask.any():
            order = np.argsort(addresses[mask])
            kept = shadow.each(lambda data: data[mask][order])
            self._stored.append((addresses[mask][order], values[mask][order], kept))

    def _reload(self, addresses: Array, mask: Array, values: Array) -> Shadow | None:
        """The shadow of what kernels stored at these addresses; None if none of it depends on a traced row."""
        found = constant(np.where(mask, values, np.nan))
        found.state[~mask] = ABSENT
        found.shift[...] = 0
        kinds: set[Kind] = set()
        first, last = addresses.min(), addresses.max()
        for places, stored, shadow in self._stored:
            if places[0] > last or places[-1] < first:
                continue
            at = np.minimum(np.searchsorted(places, addresses), len(places) - 1)
            # Memory that was given to another tensor since then holds other values.
            hit = mask & (places[at] == addresses) & (stored[at] == values)
            for name in PARTS:
                getattr(found, name)[hit] = getattr(shadow, name)[at[hit]]
            kinds |= {shadow.kind} if (shadow.state[at[hit]] == DATA).any() else set()
        return replace(found, kind=kinds.pop() if len(kinds) == 1 else "other") if found.has_data else None


def _of_masked(row: Array, mask: Array) -> Array:
    """Gives masked lanes the row of the load: of their line of a tile, or of the whole tile if it holds one row."""
    known = np.unique(row[row >= 0])
    line = row.max(axis=-1, keepdims=True)
    return np.where(mask, row, known[0] if len(known) == 1 else line)
