"""Families of shapes: widths, row counts and empty matrices."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from oracles.formats import Format
from softcheck.cases.families.draft import Draft, from_bits, listed, made
from softcheck.cases.recipe import Normal, Number, RowConstants, Sort, Uniform, number

if TYPE_CHECKING:
    import torch

    from softcheck.cases.random_rows import Draw

_WIDTHS = (2, 3, 7, 127, 128, 129, 255, 256, 257, 385, 511, 512, 513, 641, 781, 1023, 1024, 1025)
_LONG_WIDTHS = (4095, 4096, 4097, 8193)
_WIDE = (65537, 102400, 129280, 131073, 151936)


def widths(_fmt: Format) -> Iterator[Draft]:
    """Column counts around powers of two and vector widths, with logits so negative that padding with 0 shows."""
    for columns in _WIDTHS + _LONG_WIDTHS:
        report = {385: 32, 641: 30, 128: 50}.get(columns, 26 if columns > 512 else 27)
        rows = 3 if columns in _WIDTHS else 2
        yield made(
            f"{columns}",
            rows,
            columns,
            # Small numbers are other families' seeds.
            Normal(columns if columns > 100 else 400 + columns, 2.0, -10.0),
            why=report,
            tags="padding",
        )


def far_below_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``widths`` and ``rows``."""
    return d.normal(2.0, -10.0)


def wide(_fmt: Format) -> Iterator[Draft]:
    """Rows as long as a vocabulary and longer."""
    for columns in _WIDE:
        report = {65537: 29, 102400: 38, 131073: 38, 151936: 48}.get(columns)
        why = "a vocabulary's size, or a power of two" if report is None else report
        yield made(f"{columns}", 2, columns, Normal(columns, 2.0, -10.0), why=why, tags="wide")
    yield made("2-to-the-20", 1, 2**20, Normal(20, 3.0, -10.0), why="the largest block that Triton takes", tags="wide")
    reason = "the running maximum rises in every tile"
    yield made("sorted-131073", 1, 131073, Uniform(21, -40.0, 0.0), Sort(), why=reason, tags="wide")


def wide_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``wide``."""
    return d.by_row(far_below_rows, lambda d: d.normal(3.0, -10.0), lambda d: d.uniform(-40.0, 0.0))


def rows(_fmt: Format) -> Iterator[Draft]:
    """Row counts around the limit of 65535 blocks in a grid's second dimension."""
    for count, columns in ((65535, 2), (65536, 3), (65537, 8)):
        yield made(f"{count}x{columns}", count, columns, Normal(10 + count, 2.0, -5.0), why=37, tags="rows")
    reason = "more rows than multiprocessors: a fixed grid must stride"
    yield made("1000x5", 1000, 5, Normal(1000, 2.0, -5.0), why=reason, tags="rows")


def one_column(fmt: Format) -> Iterator[Draft]:
    """One column: every finite logit has probability 1, exactly."""
    yield made("finite", 6, 1, RowConstants(_ONES), why=15, tags="exact")
    yield made("normal", 5, 1, Normal(70, 30.0), why="exp(0) / exp(0) = 1", tags="exact")
    yield listed("signed-zeros", [[-0.0], [0.0]], fmt, why="exp(-0) = 1", tags="exact")


_ONES: tuple[Number, ...] = ("max", "min", 88.72284, 0.0, "least_subnormal", -100.0)


def one_column_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``one_column``."""
    values = [number(value, d.fmt) for value in _ONES]
    return d.by_row(lambda d: d.pick(values), lambda d: d.normal(30.0))


def empty(fmt: Format) -> Iterator[Draft]:
    """No rows, no columns, or neither: an empty tensor of the same shape."""
    for row_count, columns, report in ((10, 0, 42), (0, 2, 42), (0, 0, 42), (0, 513, 42)):
        bits = np.zeros((row_count, columns), dtype=fmt.storage)
        yield from_bits(f"{row_count}x{columns}", bits, why=report, tags="empty")


def sources(_fmt: Format) -> Iterator[Draft]:
    """Shapes that tutorials on fused softmax test and time."""
    why = "shape of a tutorial on fused softmax"
    yield made("1823x781", 1823, 781, Normal(1823), why=why)
    yield made("4096x1024", 4096, 1024, Normal(41024), why=why)
    yield made("128x32000", 128, 32000, Normal(32000), why="a vocabulary's size, as a blog post times it", tags="wide")
