"""Checks of the rules for a case that its types alone can't express."""

import re
from collections.abc import Iterable

import numpy as np

from oracles.formats import FORMATS, Bits, decode
from softcheck.cases.case import Case, Layout, digest
from softcheck.cases.recipe import available_bytes
from softcheck.errors import UsageError, near_matches

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
    """Raise UsageError for a case whose contents no longer give its digest, so that nothing is judged under its name.

    Recipes of more than ``LARGEST_CHECKED`` elements are left to ``softcheck corpus verify``.
    """
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
    wanted = case.layout.extent(rows, columns) * case.format.itemsize
    available = available_bytes()
    if available is not None and wanted > available:
        raise UsageError(
            f"case {case.id!r}: the layout spans {wanted / 2**30:.1f} GiB; {available / 2**30:.1f} GiB are free. "
            "Choose smaller strides or a smaller offset"
        )
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
