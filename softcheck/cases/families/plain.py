"""Families of ordinary rows: random, equal, tied, ordered, with one peak."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from oracles.formats import Format, decode, encode
from softcheck.cases.families.draft import Draft, listed, made
from softcheck.cases.families.tiny import MAXIMUM_STEPS
from softcheck.cases.recipe import Choice, Constant, Cycle, Normal, OneHot, Put, Ramp, RowConstants, Sort, Uniform

if TYPE_CHECKING:
    import torch

    from softcheck.cases.random_rows import Draw

_FIVE = (0.0, -0.5, 3.25, 3.0, -7.0)
"""Values of rows of ties."""
_MAXIMUM = 6.5
"""A logit above all others of a normal row, in several columns."""


def normal(_fmt: Format) -> Iterator[Draft]:
    """Normal logits of several scales."""
    why = "x - max is rounded before exp magnifies it, the more the larger the scale"
    tenth = "outputs near 1/N, which an absolute tolerance can't judge"
    yield made("scale-0.1-4096", 2, 4096, Normal(1, 0.1), why=tenth)
    yield made("scale-1-8192", 2, 8192, Normal(4), why=24)
    yield made("scale-2-2049", 2, 2049, Normal(5, 2.0), why=25)
    yield made("scale-3-129", 4, 129, Normal(6, 3.0), why=why)
    yield made("scale-3-4096", 2, 4096, Normal(7, 3.0), why=why)
    yield made("scale-30-513", 3, 513, Normal(8, 30.0), why=why)
    yield made("scale-30-4096", 2, 4096, Normal(9, 30.0), why=why)
    yield made("scale-100-1025", 2, 1025, Normal(10, 100.0), why=why)


def normal_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``normal``."""
    return d.normal(d.pick((0.1, 1.0, 2.0, 3.0, 10.0, 30.0, 100.0), 1))


def uniform(_fmt: Format) -> Iterator[Draft]:
    """Equal logits: every probability is 1/N."""
    reports: dict[int, int | str] = {513: 30, 769: 30, 1023: 30, 8192: 21, 1000: 22}
    for columns in (3, 10, 513, 769, 1000, 1023, 4096, 8192):
        why = reports.get(columns, "1/N, exact where N is a power of two")
        yield made(f"{columns}", 3, columns, RowConstants((-3.5, 0.0, 1.0)), why=why, tags="equal")
    for columns in (65536, 131072):
        why = "1/N is subnormal in float16, and the rounded row need not sum to 1"
        yield made(f"{columns}", 1, columns, Constant(-3.5), why=why, tags="equal wide")


def uniform_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``uniform``."""
    return d.uniform(-8.0, 8.0, 1).expand(d.rows, d.columns).contiguous()


def ties(fmt: Format) -> Iterator[Draft]:
    """Many equal logits, and logits one unit in the last place apart."""
    ones = encode(np.ones(33), fmt) + np.arange(33).astype(fmt.storage) % np.asarray(4, fmt.storage)
    neighbours = np.stack([decode(ones, fmt), -decode(ones[::-1], fmt)])
    yield listed(
        "neighbours-33", neighbours, fmt, why="logits one unit in the last place apart: order must hold", tags="order"
    )
    yield made("five-values-1025", 2, 1025, Choice(91, _FIVE), why="few values, many times each")
    reason = "the maximum in three tiles"
    yield made(
        "several-maxima-257", 2, 257, Normal(92), *(Put(column, _MAXIMUM) for column in (0, 128, 256)), why=reason
    )
    yield made("signed-zeros-65", 2, 65, Cycle((0.0, -0.0)), why="zeros of both signs are equal", tags="equal")
    reason = "probabilities of one half, where the format lets the rest vanish"
    yield made("halves-9", 2, 9, OneHot(-200.0, 0.0), Put(8, 0.0), why=reason)


def ties_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``ties``."""
    step = 2.0 ** (1 - d.fmt.precision)
    return d.by_row(
        lambda d: (1.0 + step * d.whole(0, 4)) * d.pick((1.0, -1.0), 1),
        lambda d: d.pick(_FIVE),
        lambda d: d.put(d.put(d.put(d.normal(), _MAXIMUM), _MAXIMUM), _MAXIMUM),
        lambda d: d.pick((0.0, -0.0)),
    )


def one_hot(_fmt: Format) -> Iterator[Draft]:
    """One peak, at every position in turn."""
    why = "the maximum may be at any column"
    for columns, low in ((7, -2.0), (33, -12.0), (129, -20.0)):
        yield made(f"every-position-{columns}", columns, columns, OneHot(low, 0.0), why=why)
    yield made("last-column-1025", 2, 1025, OneHot(-9.0, 1.0, 1024), why="the peak alone in the last tile")
    yield made("middle-4097", 2, 4097, OneHot(-9.0, 1.0, 2048), why=why)


def one_hot_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``one_hot``."""
    low = d.pick((-2.0, -9.0, -12.0, -20.0, -100.0), 1) + d.uniform(-1.0, 1.0, 1)
    return d.put(low.expand(d.rows, d.columns).contiguous(), d.pick((0.0, 1.0), 1))


def ramp(_fmt: Format) -> Iterator[Draft]:
    """Equally spaced logits."""
    yield made("32x32", 32, 32, Ramp(0.0, 0.03125), why=23)
    yield made("down-257", 2, 257, Ramp(4.0, -0.25), why="every difference is a multiple of a quarter")
    yield made("fine-1023", 2, 1023, Ramp(-1.0, 2.0**-10), why="many different outputs of nearly one size")
    yield made(
        "log-2-steps-385", 2, 385, Ramp(0.0, -0.34657359027997264), why="exp's argument reduction at its boundaries"
    )
    yield made("long-4097", 2, 4097, Ramp(-20.0, 2.0**-8), why="the running maximum rises in every tile")


def ramp_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``ramp``, and rows whose logits grow or fall by one amount from tile to tile.

    A running maximum grows with each tile of these, or is never passed.
    """
    return d.by_row(_slopes, _stairs)


def _slopes(d: "Draw") -> "torch.Tensor":
    steps = d.pick((0.03125, -0.25, 2.0**-10, -0.34657359, 2.0**-8, 0.1, -1.0), 1)
    return d.finite(d.uniform(-20.0, 4.0, 1) + steps * d.index)


def _stairs(d: "Draw") -> "torch.Tensor":
    tile = d.pick((32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0), 1)
    step = d.pick(MAXIMUM_STEPS, 1) * d.pick((1.0, -1.0), 1)
    return d.finite(d.normal().add_((d.index / tile).floor_() * step))


def ordered(_fmt: Format) -> Iterator[Draft]:
    """Sorted rows: a running maximum changes at every column, or never."""
    rising = "the running maximum changes at every column"
    falling = "the running maximum never changes"
    yield made("ascending-129", 2, 129, Uniform(81, -30.0, 0.0), Sort(), why=rising)
    yield made("ascending-1025", 2, 1025, Normal(82, 20.0), Sort(), why=rising)
    yield made("descending-513", 2, 513, Normal(83, 3.0), Sort(descending=True), why=falling)
    yield made("descending-4097", 2, 4097, Uniform(84, -100.0, 0.0), Sort(descending=True), why=falling)


def ordered_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``ordered``."""
    values = d.by_row(lambda d: d.uniform(-100.0, 0.0), lambda d: d.normal(20.0), lambda d: d.normal(3.0))
    rising = values.sort(dim=1).values
    return rising.where(d.whole(0, 2, 1) == 0, rising.flip(1))
