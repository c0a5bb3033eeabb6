"""Families of masked rows, and of rows that hold +inf or NaN."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from oracles.formats import Format
from softcheck.cases.families.draft import Draft, listed, made
from softcheck.cases.recipe import Constant, Mask, Normal, Number, Put

if TYPE_CHECKING:
    import torch

    from softcheck.cases.random_rows import Draw

_TRAILING = ((1, 3), (3, 129), (1, 385), (300, 513), (513, 1025))
_LEADING = ((1, 3), (64, 127), (384, 385), (512, 1025))
_NEGATIVE = -3.0
"""Mean of the logits that stay: padding counted as 0 would outweigh them."""

_SPECIALS: tuple[tuple[Number, int], ...] = (
    *(("inf", 63), ("inf", 64), ("nan", 64), ("nan", 65), ("inf", 127)),
    *(("nan", 128), ("inf", 129), ("nan", 129), ("nan", 513)),
)
"""A special value and the width of its case: around the widths of vectors and warps."""

INF = float("inf")
NAN = float("nan")


def padding(_fmt: Format) -> Iterator[Draft]:
    """Logits of -inf: leading, trailing, alternating, all but one, all; crossed with odd widths."""
    for seed, (count, columns) in enumerate(_TRAILING, 100):
        start, mask = Normal(seed, 2.0, _NEGATIVE), Mask("trailing", count)
        yield made(f"trailing-{count}-of-{columns}", 2, columns, start, mask, why=27, tags="mask")
    for seed, (count, columns) in enumerate(_LEADING, 120):
        start, mask = Normal(seed, 2.0, _NEGATIVE), Mask("leading", count)
        yield made(f"leading-{count}-of-{columns}", 2, columns, start, mask, why=7, tags="mask")
    yield made("even-of-127", 2, 127, Normal(130, 2.0), Mask("even"), why="every second logit masked", tags="mask")
    alone = "one logit left, alone in the last tile"
    yield made("all-but-one-of-1025", 2, 1025, Normal(133), Mask("all_but", 1024), why=alone, tags="mask")
    masks = (Mask("leading", 40), Mask("trailing", 30), Put(64, 0.5, row=1))
    yield made("two-masks-of-65", 2, 65, Normal(134), *masks, why=5, tags="mask")
    for columns, report in ((3, 4), (127, 3), (128, 3), (385, 6), (1025, 7)):
        start = Normal(140 + columns, 2.0, _NEGATIVE)
        yield made(f"all-of-{columns}", 3, columns, start, Mask("all", row=0), why=report, tags="mask special")
    yield made("all-of-1", 1, 1, Constant("-inf"), why=1, tags="mask special")
    causal = [Mask("trailing", 18 - row, row=row) for row in range(19)]
    yield made("causal-19", 19, 19, Normal(150, 2.0, _NEGATIVE), *causal, why=66, tags="mask")
    # The first and the last row are alike, and the first tile of the second is hidden whole.
    ragged = [Mask("leading", 64, row=1), Mask("trailing", 127, row=2), Mask("even", row=3)]
    yield made("ragged-129", 5, 129, Normal(151, 2.0, -100.0), *ragged, why=96, tags="mask")


def padding_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``padding``."""
    return d.normal(2.0, _NEGATIVE).masked_fill_(d.masks(), -INF)


def special(fmt: Format) -> Iterator[Draft]:
    """Rows that hold +inf or NaN, at every kind of place, between ordinary rows."""
    tags = "special"
    for seed, (word, columns) in enumerate(_SPECIALS, 200):
        places = (Put(-1, word, row=0), Put(0, word, row=1), Put(columns // 2, word, row=2))
        yield made(f"{word}-in-{columns}", 4, columns, Normal(seed), *places, why=10, tags=tags)
    yield listed("one-column", [[INF], [NAN], [0.0], [-INF]], fmt, why=9, tags=tags)
    yield listed("inf-and-0", [[0.0, INF], [INF, 0.0], [INF, INF], [0.0, 1.0]], fmt, why=8, tags=tags)
    mixed = [[-INF, INF, 0.0], [-INF, -INF, INF], [-INF, NAN, -INF], [NAN, INF, -INF]]
    yield listed("inf-and-minus-inf", mixed, fmt, why=20, tags=tags)
    several = (Put(3, "inf", row=0), Put(128, "inf", row=0), Put(64, "nan", row=2))
    yield made("several-inf-129", 3, 129, Normal(210), *several, why=20, tags=tags)
    yield made("all-nan-33", 2, 33, Constant("nan"), why=10, tags=tags)
    yield made("masked-and-inf-385", 2, 385, Constant("-inf"), Put(384, "inf"), why=20, tags=tags)
    last = (Put(1024, "nan", row=0), Put(1023, "inf", row=2))
    yield made("nan-in-tail-1025", 3, 1025, Normal(211), *last, why=10, tags=tags)


_ALWAYS_SPECIAL = 1 << 16
"""Columns beyond which a special value is put into only one row in two, so that ordinary rows are among them."""


def special_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``special``."""
    chance = 1.0 if d.columns <= _ALWAYS_SPECIAL else 0.5
    numbers = d.pick((INF, NAN, -INF), 1)
    return d.put(d.put(d.normal(2.0), numbers, chance), d.pick((INF, NAN, 0.0), 1), 0.25)
