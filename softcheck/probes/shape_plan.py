"""Shapes on both sides of the sizes at which a kernel may change its ways.

A number in a kernel's source may be a width, a row count or a number of elements from which another path is taken, or
the columns of a tile. Each is tried as each.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, zip_longest
from typing import TypeVar

import numpy as np

from softcheck.probes.predicate import Shape
from softcheck.probes.walk import Stop

COMMON = (32, 128, 1024, 4096)
"""Widths of tiles and limits of paths that many kernels have, for numbers that stand in another package's source."""

WIDTHS_OF_MODELS = (
    *(12, 40, 48, 80),
    *(96, 192, 384, 768, 1536, 2304, 3072, 5120, 12288, 32000, 32064, 49152, 50257, 65024, 128256, 151936, 256000),
)
"""Head counts, hidden sizes in multiples of 96, and vocabularies of language models."""

ROW_COUNTS = (*range(1, 10), *(15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 131, 132, 133, 263, 264, 265))
"""Row counts around powers of two, and around the multiprocessors of an H100 and their double."""

_TILES = 8
"""Numbers of tiles from 1 to 8 leave every remainder modulo 2, 3, 4 and 8."""
_LEAST_TILE, _MOST_TILE = 16, 16384
_LEAST_OF_ELEMENTS = 2048
_MOST_NUMBERS = 28
_MOST_ROWS_OF_A_PROGRAM = 64
_MOST_AROUND = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The numbers to plan with, the sizes that may be tried, and the adversarial rows of a shape."""

    numbers: tuple[int, ...]
    """Ascending; ``numbers_of`` makes them."""
    own: tuple[int, ...] = ()
    """Those of the numbers that the source itself holds."""
    most_columns: int
    most_elements: int
    rng: np.random.Generator
    rows: int = 0
    """Adversarial rows for a shape whose row count is free."""
    least_rows: int = 0
    most_batch: int = 0
    """Elements of a call whose row count is free; there are ``least_rows`` rows in any case."""
    calls: int = 0
    """Calls with one row each."""

    @property
    def tiles(self) -> list[int]:
        """Numbers that may be widths of tiles."""
        return [n for n in self.numbers if _LEAST_TILE <= n <= _MOST_TILE and n % _LEAST_TILE == 0]

    @property
    def boundaries(self) -> list[int]:
        """Numbers that may be widths or row counts from which another path is taken."""
        return [n for n in self.numbers if n < self.most_columns]

    def fits(self, shape: Shape) -> bool:
        """True if the shape has elements, and no more than may be tried."""
        return shape.rows > 0 and 0 < shape.columns <= self.most_columns and shape.elements <= self.most_elements

    def free(self, columns: int) -> Shape:
        """As many rows of this width as a call may hold."""
        return Shape(max(self.least_rows, min(self.rows, self.most_batch // columns)), columns)

    def at(self, rows: int, columns: int) -> Stop:
        """The shape with the largest tile of which a row has at least two, or a quarter of the row."""
        tile = max((t for t in self.tiles if 2 * t <= columns), default=max(1, columns // 4))
        return Stop(Shape(rows, columns), tile=tile)

    def representatives(self) -> list[int]:
        """Columns on both sides of each boundary, and a random width between any two boundaries; ascending."""
        edges = [1, *self.boundaries, self.most_columns]
        between = (int(self.rng.integers(low, high)) for low, high in pairwise(edges) if low < high)
        around = (n + d for n in self.boundaries for d in (-1, 0, 1))
        return sorted({n for n in chain(between, around, (1, 2)) if 0 < n <= self.most_columns})


def numbers_of(sizes: Iterable[int], *, largest: int) -> tuple[int, ...]:
    """Returns the numbers to plan with: the sizes in a source, and if there is room, common sizes."""
    own = [n for n in sizes if n <= largest]
    return tuple(sorted(dict.fromkeys([*own, *COMMON][:_MOST_NUMBERS])))


def widths(space: Space) -> Iterator[Stop]:
    """Widths one below, at and one above each boundary, around its double, and beyond it by each smaller number; then others."""
    own = sorted({n for n in space.own if n < space.most_columns}, reverse=True)
    beyond = interleaved([[n + m for m in own if 1 < m < n] for n in own])
    around = interleaved([(n, n + 1, n - 1) for n in space.boundaries])
    doubled = interleaved([(2 * n, 2 * n + 1) for n in space.boundaries])
    found = chain(interleaved([list(around), list(beyond)]), doubled)
    chosen = dict.fromkeys([*islice(found, _MOST_AROUND), *space.representatives()])
    return (space.at(*space.free(columns)) for columns in chosen if columns)


def tiles(space: Space) -> Iterator[Stop]:
    """Widths of 1 to 8 tiles beyond each boundary. The last tile is whole or not."""
    plans = []
    for start in (0, *space.boundaries):
        for tile in space.tiles:
            if (start and tile > start) or start + tile > space.most_columns:
                continue
            counts = space.rng.permutation(_TILES) + start // tile
            ends = space.rng.permuted(np.resize([1, tile, tile - 1, tile // 2 + 1], (2, _TILES)), axis=1)
            found = [int(count * tile + end) for of_each in ends for count, end in zip(counts, of_each, strict=True)]
            plans.append([(width, tile) for width in found if width > start])
    return (Stop(space.free(width), tile=tile) for width, tile in interleaved(plans))


def single_rows(space: Space) -> Iterator[Stop]:
    """One width in calls of each adversarial row alone, then other widths in few calls of 1, 2 and 3 rows."""
    found = space.representatives()
    yield replace(space.at(1, min(found, key=lambda n: abs(n - 300))), calls=space.calls)
    for rows in (1, 2, 3):
        yield from (replace(space.at(rows, n), calls=8) for n in space.rng.permutation(found).tolist())


def tall(space: Space) -> Iterator[Stop]:
    """Row counts around each boundary and around powers of two, with few columns and with many."""
    counts = [*interleaved([(n, n + 1, n - 1) for n in space.boundaries]), *ROW_COUNTS]
    few = [(rows, int(space.rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 40, 130)))) for rows in counts]
    few = list(interleaved([few, [(rows, 3) for rows in counts[: 3 * len(space.boundaries)]]]))
    # One boundary of rows and another one of columns, the smallest first.
    edges = [n for n in space.boundaries if n >= _LEAST_TILE]
    both = sorted(((rows, columns + 1) for rows in edges for columns in edges), key=lambda shape: shape[0] * shape[1])
    # As many rows as two numbers' product, and one more: the rows of a program, say, times the most programs.
    pairs = {a * b for a in space.boundaries if 1 < a <= _MOST_ROWS_OF_A_PROGRAM for b in space.boundaries if b > a}
    products = [(rows, 3) for product in sorted(pairs) for rows in (product + 1, product)]
    found = [1, 3, 8, *space.representatives()]
    between = [*space.representatives(), *ROW_COUNTS]
    others = ((rows, columns) for columns in space.rng.permutation(found).tolist() for rows in between)
    return (space.at(*shape) for shape in chain(interleaved([few, both, products]), others))


def many_elements(space: Space) -> Iterator[Stop]:
    """Shapes with as many elements as a number says, with fewer and with more; of few long rows first."""
    numbers = [n for n in space.numbers if _LEAST_OF_ELEMENTS <= n <= space.most_elements // 2]
    found = sorted({space.most_columns, *space.representatives(), 8}, reverse=True)
    plans = []
    for number in numbers:
        of_number = []
        for width in [w for w in found if w <= number // 2] or [1]:
            rows = -(-number // width)
            of_number += [(rows + 1, width), (rows, width), (rows - 1, width), (2 * rows, width)]
        # One row more than whole chunks have, whatever rows a chunk has.
        chunked = [(rows, -(-number // rows) + 1) for rows in (17, 33, 257, 1025, 4097)]
        plans.append([*of_number[:2], *chunked, *of_number[2:]])
    return (space.at(*shape) for shape in interleaved(plans))


def anywhere(space: Space) -> Iterator[Stop]:
    """Random shapes without end, every second one of a model's width."""

    def log_uniform(most: int) -> int:
        return max(1, int(most ** space.rng.random()))

    while True:
        is_model = space.rng.random() < 0.5
        columns = int(space.rng.choice(WIDTHS_OF_MODELS)) if is_model else log_uniform(space.most_columns)
        yield space.at(log_uniform(max(1, min(2**16, space.most_elements // columns))), columns)


Item = TypeVar("Item")


def interleaved(plans: Sequence[Sequence[Item]]) -> Iterator[Item]:
    """Yields the first item of each plan, then the second of each, each item once."""
    dealt = (item for items in zip_longest(*plans) for item in items if item is not None)
    yield from dict.fromkeys(dealt)
