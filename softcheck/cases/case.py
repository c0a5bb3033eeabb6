"""A case: one concrete input of a softmax kernel, with its memory layout and its origin."""

import hashlib
from typing import Self

import msgspec
import numpy as np

from oracles.formats import FORMATS, Bits, Format
from softcheck.cases.recipe import Count, Recipe
from softcheck.errors import UsageError

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
    """First 16 hexadecimal digits of SHA-256 over dtype, shape, layout and bits: proves that a recipe reproduces."""
    rows: tuple[str, ...] | None = None
    recipe: Recipe | None = None
    layout: Layout = PACKED
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
        tags: tuple[str, ...] = (),
        provenance: str,
    ) -> Self:
        """The case of a matrix of bit patterns, [rows, columns]; its name defaults to its digest.

        It holds the bits, or, if they are more than ``MAX_STORED_ELEMENTS``, the ``recipe`` that gives them.
        """
        found = digest(bits, fmt, layout)
        stored = recipe is None or bits.size <= MAX_STORED_ELEMENTS
        return cls(
            id=f"{family}/{found if name is None else name}/{fmt.name}",
            dtype=fmt.name,
            shape=(bits.shape[0], bits.shape[1]),
            digest=found,
            rows=format_rows(bits, fmt) if stored else None,
            recipe=None if stored else recipe,
            layout=layout,
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

    def with_digest(self) -> Self:
        """Returns the same case with the digest of its bits."""
        return msgspec.structs.replace(self, digest=digest(self.bits(), self.format, self.layout))


def digest(bits: Bits, fmt: Format, layout: Layout) -> str:
    """Digest of an input: equal exactly where dtype, shape, strides, offset and every bit are equal."""
    rows, columns = bits.shape
    head = f"{fmt.name} {rows}x{columns} {layout.strides(columns)} {layout.offset}\n"
    little_endian = np.ascontiguousarray(bits, dtype=fmt.storage.newbyteorder("<"))
    return hashlib.sha256(head.encode() + little_endian.tobytes()).hexdigest()[:16]


def parse_rows(rows: tuple[str, ...], columns: int, fmt: Format) -> Bits:
    """Bit patterns from one string per row, each element in fixed-width hexadecimal, separated by spaces."""
    parsed = np.zeros((len(rows), columns), dtype=fmt.storage)
    for i, text in enumerate(rows):
        words = text.split()
        if len(words) != columns:
            raise UsageError(f"row {i} holds {len(words)} elements, expected {columns} as the case's shape says")
        for word in words:
            if len(word) != fmt.hex_digits:
                raise UsageError(
                    f"row {i}: {word!r} is not a {fmt.name} pattern of {fmt.hex_digits} hexadecimal digits"
                )
        try:
            parsed[i] = np.frombuffer(bytes.fromhex("".join(words)), dtype=fmt.storage.newbyteorder(">"))
        except ValueError as error:
            raise UsageError(f"row {i}: {error}; expected {fmt.hex_digits} hexadecimal digits per element") from None
    return parsed


def format_rows(bits: Bits, fmt: Format) -> tuple[str, ...]:
    """The inverse of ``parse_rows``."""
    big_endian = np.ascontiguousarray(bits, dtype=fmt.storage.newbyteorder(">"))
    return tuple(row.tobytes().hex(" ", fmt.itemsize) if row.size else "" for row in big_endian)
