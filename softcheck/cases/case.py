"""A case: one concrete input of a softmax kernel, with its memory layout and its origin, and the rules that its types can't express."""

import hashlib
import re
from collections.abc import Iterable
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracles.formats import FORMATS, Bits, Format, decode
from softcheck.cases.bit_rows import format_rows, parse_rows
from softcheck.cases.operands import Operands
from softcheck.cases.recipe import Count, Recipe, check_memory
from softcheck.errors import UsageError, near_matches
from softcheck.operations.operation import Named

GENERATED = "generated"
"""Family of cases that softcheck makes as it runs; no corpus holds them."""


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Memory layout of a matrix, in elements: element (i, j) is at ``offset + i * row_stride + j * column_stride``.

    ``row_stride`` None means contiguous rows (the column count). The memory between the elements is filled with NaN, so
    that a kernel that ignores a stride or an offset computes with poison.
    """

    row_stride: Count | None = None
    column_stride: Count = 1
    offset: Count = 0

    def strides(self, columns: int) -> tuple[int, int]:
        """Row and column stride in elements for a matrix of that many columns."""
        return (columns if self.row_stride is None else self.row_stride, self.column_stride)

    def is_contiguous(self, columns: int) -> bool:
        """True if the elements are packed row by row from the start of the storage."""
        return self.strides(columns) == (columns, 1) and self.offset == 0

    def fitted(self, was: int, now: int) -> "Layout":
        """The layout for another column count, with the same gap after each row."""
        if self.row_stride is None or self.row_stride == 0 or self.column_stride != 1 or was == now:
            return self
        return msgspec.structs.replace(self, row_stride=max(1, self.row_stride - was + now))

    def extent(self, rows: int, columns: int) -> int:
        """Elements of the smallest storage that holds a matrix of that shape, the offset included."""
        if rows == 0 or columns == 0:
            return self.offset
        row_stride, column_stride = self.strides(columns)
        return self.offset + (rows - 1) * row_stride + (columns - 1) * column_stride + 1


PACKED = Layout()
"""Contiguous rows from the start of the storage. Cases that share this object leave the layout out of their JSON."""


MAX_STORED_ELEMENTS = 300
"""Elements up to which a case that has a recipe stores its bits all the same, where a reader can see them."""


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One input matrix. Exactly one of ``rows`` (bit patterns in hexadecimal) and ``recipe`` gives its contents."""

    id: str
    """``family/name/dtype``; stable, unique over all corpora."""
    dtype: str
    shape: tuple[Count, Count]
    digest: str
    """First 16 hexadecimal digits of SHA-256 over dtype, shape, layout, bits and named operands: proves that a recipe
    reproduces."""
    rows: tuple[str, ...] | None = None
    recipe: Recipe | None = None
    layout: Layout = PACKED
    operands: Operands | None = None
    """Operands and parameters in place of those that an operation makes from the matrix; None names none."""
    tags: tuple[str, ...] = ()
    provenance: str

    @classmethod
    def of(
        cls,
        bits: Bits,
        fmt: Format,
        *,
        family: str,
        name: str | None = None,
        recipe: Recipe | None = None,
        layout: Layout = PACKED,
        operands: Operands | None = None,
        tags: tuple[str, ...] = (),
        provenance: str,
    ) -> Self:
        """The case of a matrix of bit patterns, named by its digest by default; larger than ``MAX_STORED_ELEMENTS`` it holds its recipe."""
        found = digest(bits, fmt, layout, operands)
        stored = recipe is None or bits.size <= MAX_STORED_ELEMENTS
        if operands is not None and stored:
            operands = operands.with_bits(
                {name: operands.bits(name, bits.shape, fmt) for name in operands.matrices}, fmt
            )
        return cls(
            id=f"{family}/{found if name is None else name}/{fmt.name}",
            dtype=fmt.name,
            shape=(bits.shape[0], bits.shape[1]),
            digest=found,
            rows=format_rows(bits, fmt) if stored else None,
            recipe=None if stored else recipe,
            layout=layout,
            operands=operands,
            tags=tags,
            provenance=provenance,
        )

    @property
    def family(self) -> str:
        """The first part of the id."""
        return self.id.split("/", 1)[0]

    @property
    def format(self) -> Format:
        """The floating-point format of the elements."""
        return FORMATS[self.dtype]

    def bits(self, first_rows: int | None = None) -> Bits:
        """Bit patterns, shape [rows, columns]; only the first rows where a number is given."""
        rows, columns = self.shape
        if first_rows is not None:
            rows = min(rows, first_rows)
        if self.rows is not None:
            return parse_rows(self.rows[:rows], columns, self.format)
        if self.recipe is None:
            raise UsageError(f"case {self.id!r} holds neither rows nor a recipe; add one of them")
        return self.recipe.bits(rows, columns, self.format)

    def part(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Self | None:
        """Returns some rows and columns, with gaps as before and with what is named of them; None if a row's target is not among them."""
        operands = None
        if self.operands is not None:
            operands = self.operands.kept(self.shape, self.format, rows=rows, columns=columns)
            if operands is None:
                return None
        bits = self.bits()[np.ix_(rows, columns)]
        layout = self.layout.fitted(self.shape[1], len(columns))
        return self.with_contents(bits, layout, operands)

    def with_contents(self, bits: Bits, layout: Layout, operands: Operands | None) -> Self:
        """Returns a case of the same id and origin that holds these bits and operands."""
        return msgspec.structs.replace(
            self,
            shape=(bits.shape[0], bits.shape[1]),
            digest=digest(bits, self.format, layout, operands),
            rows=format_rows(bits, self.format),
            recipe=None,
            layout=layout,
            operands=operands,
        )

    def named(self, first_rows: int | None = None) -> Named:
        """Values of the operands that the case names, of the first rows where a number is given; empty if there are none."""
        if self.operands is None:
            return {}
        rows, columns = self.shape
        return self.operands.values((rows if first_rows is None else min(rows, first_rows), columns), self.format)


def digest(bits: Bits, fmt: Format, layout: Layout, operands: Operands | None = None) -> str:
    """Digest of an input: equal exactly where dtype, shape, strides, offset, every bit and all that is named are equal."""
    rows, columns = bits.shape
    head = f"{fmt.name} {rows}x{columns} {layout.strides(columns)} {layout.offset}\n"
    little_endian = np.ascontiguousarray(bits, dtype=fmt.storage.newbyteorder("<"))
    beside = b"" if operands is None else operands.told((rows, columns), fmt)
    return hashlib.sha256(head.encode() + little_endian.tobytes() + beside).hexdigest()[:16]


_ID = re.compile(r"[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*/(?P<dtype>[a-z0-9]+)")


def check_name(name: str) -> None:
    """Raise UsageError where a name can't be the middle part of an id."""
    if _ID.fullmatch(f"family/{name}/float16") is None:
        raise UsageError(f"name {name!r}: expected lower-case letters, digits, dots, dashes and underscores")


def check_fields(case: Case) -> None:
    """Raise UsageError where id, dtype, shape and contents contradict each other. Makes no bits, so it is cheap."""
    if case.dtype not in FORMATS:
        raise UsageError(f"unknown dtype {case.dtype!r} in case {case.id!r}; {near_matches(case.dtype, list(FORMATS))}")
    matched = _ID.fullmatch(case.id)
    if matched is None:
        raise UsageError(
            f"id {case.id!r} is not family/name/dtype in lower-case letters, digits, dots, dashes and underscores, "
            f"such as 'padding/trailing-3-of-129/{case.dtype}'"
        )
    if matched["dtype"] != case.dtype:
        raise UsageError(f"id {case.id!r} ends in {matched['dtype']!r}, but the case's dtype is {case.dtype!r}")
    if (case.rows is None) == (case.recipe is None):
        held = "neither rows nor a recipe" if case.rows is None else "both rows and a recipe"
        raise UsageError(f"case {case.id!r} holds {held}; expected exactly one of them")
    if case.rows is not None and len(case.rows) != case.shape[0]:
        raise UsageError(f"case {case.id!r} holds {len(case.rows)} rows, but its shape says {case.shape[0]}")


def check_contents(case: Case) -> None:
    """Raise UsageError where the bits can't be made, don't fit their layout, or don't give the case's digest."""
    check_fields(case)
    bits = case.bits()
    check_layout(bits, case)
    if case.operands is not None:
        case.operands.check(decode(bits, case.format), case.format, case.id)
    found = digest(bits, case.format, case.layout, case.operands)
    if found != case.digest:
        raise UsageError(
            f"case {case.id!r} has the digest {found}, but {case.digest!r} is recorded: its bits, shape, layout or operands "
            "were changed after it was saved. Restore the line, or remove it and add the input anew"
        )


def refuse_changed(cases: Iterable[Case]) -> None:
    """Raise UsageError for a case whose contents no longer give its digest; recipes beyond ``LARGEST_CHECKED`` are left to ``corpus verify``."""
    for case in cases:
        rows, columns = case.shape
        if case.rows is not None or rows * columns <= LARGEST_CHECKED:
            check_contents(case)


LARGEST_CHECKED = 1 << 17
"""Elements of the largest recipe that is hashed before every run. All smaller recipes take a third of a second in
all."""


def check_layout(bits: Bits, case: Case) -> None:
    """Raises UsageError if the storage doesn't fit into memory, or if one address would hold two different elements."""
    rows, columns = bits.shape
    check_memory(case.layout.extent(rows, columns) * case.format.itemsize, f"case {case.id!r}: the layout")
    if not _one_element_each(case.layout, rows, columns):
        _refuse_conflicts(bits, case)


def _one_element_each(layout: Layout, rows: int, columns: int) -> bool:
    """True if strides alone show that no two elements share an address."""
    row_stride, column_stride = layout.strides(columns)
    row_span, column_span = (rows - 1) * row_stride, (columns - 1) * column_stride
    rows_apart = column_stride > 0 and (rows <= 1 or row_stride > column_span)
    columns_apart = row_stride > 0 and (columns <= 1 or column_stride > row_span)
    return rows_apart or columns_apart or rows == 0 or columns == 0


def _refuse_conflicts(bits: Bits, case: Case) -> None:
    rows, columns = bits.shape
    row_stride, column_stride = case.layout.strides(columns)
    address = np.arange(rows)[:, None] * row_stride + np.arange(columns) * column_stride
    storage = np.zeros(int(address.max()) + 1, dtype=bits.dtype)
    storage[address] = bits
    conflicts = np.argwhere(storage[address] != bits)
    if len(conflicts):
        row, column = conflicts[0]
        raise UsageError(
            f"case {case.id!r}: the layout puts element ({row}, {column}) and another of different bits at one address. "
            "Elements that share memory must be equal"
        )
