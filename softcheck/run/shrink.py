"""Shrinking a failing case: fewer rows, fewer columns, simpler values, still failing."""

from collections.abc import Callable

import msgspec
import numpy as np

from oracles.formats import Bits, encode
from softcheck.cases.case import Case, Layout, format_rows
from softcheck.cases.check import check_layout
from softcheck.errors import UsageError

Fails = Callable[[Case], bool]

_BUDGET = 150
"""Most runs that each stage may take; under the interpreter they take a second or two."""


class _Shrinker:
    def __init__(self, case: Case, fails: Fails) -> None:
        self.case = case
        self.fails = fails
        self.left = 0

    def offer(self, bits: Bits, layout: Layout | None = None) -> bool:
        """Accepts a simpler input if it still fails."""
        if self.left == 0:
            return False
        self.left -= 1
        candidate = with_bits(self.case, bits, self.case.layout if layout is None else layout)
        try:
            check_layout(bits, candidate)
        except UsageError:
            # Elements that share memory must stay equal.
            return False
        if not self.fails(candidate):
            return False
        self.case = candidate
        return True


def shrink(case: Case, fails: Fails, *, row: int | None = None) -> Case:
    """Returns the simplest failing case that a few hundred runs find, or the case itself if nothing simpler fails.

    ``row`` is the row that is known to fail. ``fails`` must be true of ``case``. The result holds its bits.
    """
    search = _Shrinker(with_bits(case, case.bits(), case.layout), fails)
    for stage in (_pack, lambda s: _drop_rows(s, row), _drop_columns, _simplify_values):
        search.left = _BUDGET
        stage(search)
    return search.case


def with_bits(case: Case, bits: Bits, layout: Layout) -> Case:
    """A case of the same id and origin that holds these bits. A strided layout keeps its gaps, not its strides."""
    rows, columns = bits.shape
    fitted = _fit(layout, case.shape[1], columns)
    changed = msgspec.structs.replace(
        case, shape=(rows, columns), rows=format_rows(bits, case.format), recipe=None, layout=fitted
    )
    return changed.with_digest()


def _fit(layout: Layout, was: int, now: int) -> Layout:
    """The layout for another column count, with the same gap after each row."""
    if layout.row_stride is None or layout.row_stride == 0 or layout.column_stride != 1 or was == now:
        return layout
    return msgspec.structs.replace(layout, row_stride=max(1, layout.row_stride - was + now))


def _pack(search: _Shrinker) -> None:
    search.offer(search.case.bits(), Layout())


def _drop_rows(search: _Shrinker, row: int | None) -> None:
    bits = search.case.bits()
    candidates = [row] if row is not None and row < len(bits) else []
    if len(bits) > 1 and any(search.offer(bits[r : r + 1]) for r in (*candidates, 0, len(bits) - 1)):
        return
    _drop_chunks(search, axis=0)


def _drop_columns(search: _Shrinker) -> None:
    """Bisects for the shortest failing beginning, then end, then removes runs of columns in between."""
    for beginning in (True, False):
        passing, failing = 0, search.case.shape[1]
        while failing - passing > 1:
            middle = (passing + failing) // 2
            bits = search.case.bits()
            if search.offer(bits[:, :middle] if beginning else bits[:, -middle:]):
                failing = middle
            else:
                passing = middle
    _drop_chunks(search, axis=1)


def _drop_chunks(search: _Shrinker, axis: int) -> None:
    """Removes ever smaller runs of rows or columns, from the end, as delta debugging does."""
    size = search.case.shape[axis] // 2
    while size >= 1:
        end = search.case.shape[axis]
        while end - size >= 0 and search.case.shape[axis] > size:
            shorter = np.delete(search.case.bits(), np.s_[end - size : end], axis=axis)
            search.offer(shorter)
            end -= size
            if search.left == 0:
                return
        size //= 2


def _simplify_values(search: _Shrinker) -> None:
    """Tries zero for every value at once, for each distinct value, then for each element of a short row."""
    fmt = search.case.format
    zero = encode(np.array([0.0]), fmt)[0]
    bits = search.case.bits()
    if search.offer(np.zeros_like(bits)):
        return
    for value in np.unique(bits)[:64]:
        current = search.case.bits()
        if value != zero and (current == value).any():
            search.offer(np.where(current == value, zero, current).astype(bits.dtype))
    for index in range(min(search.case.bits().size, 64)):
        current = search.case.bits().copy()
        if current.flat[index] != zero:
            current.flat[index] = zero
            search.offer(current)
