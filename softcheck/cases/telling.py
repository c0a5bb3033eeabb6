"""Rows that show faults which ordinary rows hide, for any number of columns and any width of a tile.

A fault shows only if it moves an output by more than rounding may. A dropped column must therefore carry a visible
share of its row's sum, and the maximum must grow and fall between tiles by as much as a wrong rescaling needs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, zip_longest
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from oracles.formats import Bits, Format, Values, encode
from softcheck.cases.edges import LN2, MAXIMUM_STEPS
from softcheck.cases.random_rows import FILLERS, fill

_NEAR_STEPS, _FAR_STEPS = (1.0, 3.0), (89.0, 104.0, 150.0, 1e4)

_LEVELS = (-30.0, 60.0, -150.0, 150.0)
"""Means of whole rows. Rows that lie further apart than exp reaches show what one row takes from another."""

_OF_FAMILIES = ("special", "subnormal-results", "ties", "ramp", "sorted", "huge", "finfo-min", "uniform", "negative")
"""Families of cases whose rows are drawn too, a few of each."""
_ROWS_OF_FAMILY = 10

_DISTANCES = (8.0, 16.0, 17.5, 20.0, 30.0, 64.0, 87.0, 87.4, 88.0, 88.8, 103.0, 103.9, 104.1, 126 * LN2, 149 * LN2)
"""Distances from the maximum at which exponentials are cut off or change their form."""

_RESIDUES = 64
_MOST_PEAKS = 8
_MOST_TILES = 32
"""Tiles whose first and last columns are places of interest, evenly spread over the row."""

_MOST_COVERING = 48
"""Rows that together give columns a visible share: enough for all columns of most rows, and for some of wide ones."""

_Row = Callable[[], Values]
_Group = list[_Row]


def telling_batch(
    columns: int,
    tile: int,
    fmt: Format,
    rng: np.random.Generator,
    *,
    values: Sequence[float] = (),
    places: Sequence[int] = (),
    most: int | None = None,
) -> Bits:
    """Bits of adversarial rows, shape [rows, columns]; at most ``most`` rows, of as many kinds as possible.

    ``tile`` is the number of columns that a kernel takes at once. ``values`` are numbers at which a kernel may change
    its ways: they appear as logits, as the maximum and as distances from it. ``places`` are columns of interest besides
    those at the ends of tiles. Without ``most`` there are 150 to 250 rows. The first rows show dropped tiles, columns
    and rescalings; the other rows come in an order that is drawn.
    """
    drawing = _Drawing(columns, tile, fmt, rng, [float(v) for v in values if abs(v) <= fmt.max], places)
    chosen = [*drawing.structural(), *_dealt(drawing.groups(), rng)][:most]
    return encode(np.stack([row() for row in chosen]), fmt)


def _dealt(groups: Sequence[_Group], rng: np.random.Generator) -> Iterator[_Row]:
    """Yields one row of each group in turn, so that any first part holds rows of as many kinds as possible.

    The order within a group and the order of groups are drawn, so that two batches begin with other rows.
    """
    shuffled = [[group[i] for i in rng.permutation(len(group))] for group in groups]
    order = [shuffled[i] for i in rng.permutation(len(shuffled))]
    return (row for dealt in zip_longest(*order) for row in dealt if row is not None)


@dataclass
class _Drawing:
    """Draws rows as float64 values. Rows are made only when they are asked for: wide rows cost milliseconds."""

    columns: int
    tile: int
    fmt: Format
    rng: np.random.Generator
    values: Sequence[float]
    places: Sequence[int]

    def __post_init__(self) -> None:
        # A row of one tile is cut in four, as a program of several warps does.
        self.tile = max(1, self.tile if self.tile < self.columns else self.columns // 4)
        self.tiles = -(-self.columns // self.tile)
        self.places = self._of_interest(self.places)
        self._noise = 2.0 * self.rng.standard_normal(self.columns)

    def structural(self) -> _Group:
        """The few rows that show most: peaks at the ends of tiles, growth and fall of the maximum, padding."""
        starts = np.arange(self.tiles) * self.tile
        ends = np.minimum(starts + self.tile, self.columns) - 1
        some = self.rng.permutation(self.tiles - 1)[: min(self._visible, _MOST_PEAKS) - 1]
        return [
            self._peaked(np.append(ends[some], self.columns - 1)),
            # A maximum that is missed overflows; a rescaling that is missed shows where both sides count.
            lambda: self._jump(self.rng.choice(_FAR_STEPS)),
            # Padding that is read as 0 outweighs all logits, the largest of which is the last.
            lambda: self._put(-22.0, [-1], mean=-30.0),
            # The first tile is -inf throughout, or every tile but the last: the maximum is still -inf where the first one ends.
            lambda: self._put(-np.inf, slice(int(self.rng.choice((1, self.tiles - 1))) * self.tile)),
            lambda: self._jump(self.rng.choice(_NEAR_STEPS)),
            self._peaked(np.append(starts[some], starts[-1])),
            lambda: self._put(self.rng.choice((np.nan, np.inf)), [self.rng.integers(starts[-1], self.columns)]),
            lambda: self._one_tile_holds(-np.inf),
            lambda: self._jump(-self.rng.choice(_NEAR_STEPS)),
            lambda: self._add(-1e4, self._tile()),
            self._lane_is_masked,
            lambda: self._jump(-self.rng.choice(_FAR_STEPS)),
        ]

    def groups(self) -> list[_Group]:
        """All rows, by kind."""
        steps = [sign * step for step in MAXIMUM_STEPS for sign in (1.0, -1.0)]
        values = [sign * value for value in self.values for sign in (1.0, -1.0)]
        return [
            [lambda: np.full(self.columns, -np.inf)],
            [partial(self._one_finite, place) for place in self._lone_places()],
            self._peaks(),
            self._covering(),
            [partial(self._jump, step) for step in steps],
            [partial(self._one_tile_holds, value) for value in (-np.inf, -np.inf, -np.inf, np.nan, np.inf)],
            [lambda step=step: self._add(step, self._tile()) for step in (20.0, -20.0, 90.0, -90.0, -1e4)],  # type: ignore[misc]
            [partial(self._every_second_tile, value) for value in (-np.inf, -self.fmt.max)],
            [self._lane_is_masked, self._lane_is_masked],
            [self._ties_of_tiles, self._ties_of_tiles],
            [self._distances, self._distances],
            [lambda: np.where(np.arange(self.columns) % 2 == 0, 5.0, -5.0) + 0.1 * self._noise],
            [partial(self.noise, mean) for mean in _LEVELS],
            [partial(self._around, value) for value in values],
            *(self._of_family(name) for name in _OF_FAMILIES),
        ]

    def _of_family(self, name: str) -> _Group:
        generator = torch.Generator().manual_seed(int(self.rng.integers(2**62)))

        @cache
        def drawn() -> Values:
            rows = fill(FILLERS[name], _ROWS_OF_FAMILY, self.columns, self.fmt, generator)
            found: Values = rows.double().numpy()
            return found

        return [lambda row=row: drawn()[row] for row in range(_ROWS_OF_FAMILY)]  # type: ignore[misc]

    def noise(self, mean: float = 0.0) -> Values:
        """Ordinary logits of standard deviation 2 that differ from row to row."""
        return np.roll(self._noise, int(self.rng.integers(self.columns))) * self.rng.uniform(0.8, 1.2) + mean

    def _of_interest(self, places: Sequence[int]) -> list[int]:
        last = self.columns - 1
        of_tiles = np.unique(np.linspace(0, self.tiles - 1, min(self.tiles, _MOST_TILES)).astype(int)) * self.tile
        found: set[int] = {0, 1, last - 1, last, self.columns // 2}
        for first in of_tiles.tolist():
            found |= {first, first - 1, min(first + self.tile - 1, last)}
        for place in places:
            found |= {place - 1, place, place + 1}
        found |= {2**k + d for k in range(3, 20) for d in (-1, 0)}
        return sorted(p for p in found if 0 <= p <= last)

    def _lone_places(self) -> list[int]:
        residues = [
            int(self.rng.integers(0, 1 + (self.columns - 1 - r) // _RESIDUES)) * _RESIDUES + r
            for r in range(min(_RESIDUES, self.columns))
        ]
        return [*self.places, *residues]

    def _one_finite(self, place: int) -> Values:
        row = np.full(self.columns, -np.inf)
        row[place] = self.rng.choice((0.0, 3.0, -200.0, 50.0))
        return row

    def _peaks(self) -> _Group:
        """Rows in which a few columns of interest and random columns carry half of the sum, in equal parts."""
        each = min(self._visible, _MOST_PEAKS)
        random = self.rng.integers(0, self.columns, 4 * each)
        wanted = self.rng.permutation(np.concatenate([self.places, random]).astype(int))
        return [self._peaked(wanted[i : i + each]) for i in range(0, len(wanted), each)]

    def _covering(self) -> _Group:
        """Rows which together give every column a visible share in one of them."""
        each = min(self._visible, self.columns)
        order = self.rng.permutation(self.columns)
        return [self._peaked(order[i : i + each]) for i in range(0, self.columns, each)][:_MOST_COVERING]

    @property
    def _visible(self) -> int:
        """Columns that can share half a sum so that the loss of one shows well beyond the format's rounding."""
        return int(2 ** min(self.fmt.precision - 4, 20))

    def _peaked(self, places: NDArray[np.int64]) -> _Row:
        def row() -> Values:
            found: Values = 0.3 * self._noise + np.log(len(places) / self.columns)
            found[places] = 0.15 * self.rng.standard_normal(len(places))
            found += self.rng.choice((0.0, -30.0, 40.0))
            return found

        return row

    def _put(self, value: float, where: Any, mean: float = 0.0) -> Values:
        """Ordinary logits but for some columns, which hold one value."""
        row = self.noise(mean)
        row[where] = value
        return row

    def _add(self, step: float, where: slice) -> Values:
        """Ordinary logits of which some are larger by ``step``."""
        row = self.noise()
        row[where] += step
        return self._finite(row)

    def _tile(self, first: int = 0) -> slice:
        """The first, the second, the last or any tile's columns."""
        tile = int(self.rng.choice((first, self.tiles - 1, int(self.rng.integers(self.tiles)))))
        start = min(tile, self.tiles - 1) * self.tile
        return slice(start, start + self.tile)

    def _jump(self, step: float) -> Values:
        """From some tile on, all logits are larger by ``step``. Before it some are level, so that their sum is large."""
        row = self.noise() * self.rng.choice((1.0, 0.01))
        row[self._tile(first=1).start :] += step
        return self._finite(row)

    def _one_tile_holds(self, value: float) -> Values:
        """One tile is -inf throughout; if ``value`` is another value, the tile holds that value at one column."""
        tile = self._tile()
        row = self._put(-np.inf, tile)
        if value != -np.inf:
            row[min(tile.start + int(self.rng.integers(self.tile)), self.columns - 1)] = value
        return row

    def _lane_is_masked(self) -> Values:
        """From the second tile on, -inf stands at one residue modulo a number of lanes or the tile's width."""
        lanes = int(self.rng.choice((32, _RESIDUES, 128, self.tile)))
        return self._put(-np.inf, slice(self.tile + int(self.rng.integers(lanes)), None, lanes))

    def _every_second_tile(self, value: float) -> Values:
        return self._put(value, np.arange(self.columns) // self.tile % 2 == self.rng.integers(2))

    def _ties_of_tiles(self) -> Values:
        """Each tile holds the maximum once, at the same distance above the other logits."""
        row = np.minimum(self.noise(-3.0), 0.0)
        starts = np.arange(0, self.columns, self.tile)
        row[np.minimum(starts + int(self.rng.integers(self.tile)), self.columns - 1)] = 2.0
        return row

    def _distances(self) -> Values:
        """Logits at all distances of interest from the maximum, around them, and at their next neighbours."""
        distances = np.array([*_DISTANCES, *chain.from_iterable(map(_distances_of, self.values))])
        offsets = (0.0, 1.0, -1.0, 2.0**-5, -(2.0**-5))
        each = np.abs(np.concatenate([distances + offset for offset in offsets]))
        row = np.minimum(self.noise(-6.0), -0.5)
        at = self.rng.permutation(self.columns)[: len(each)]
        row[at] = -self.rng.permutation(each)[: len(at)]
        row[self.rng.choice(self.places)] = 0.0
        return self._finite(row + self.rng.choice((0.0, 1.0, 16.0, -64.0)))

    def _around(self, value: float) -> Values:
        """Logits at, beside and near one value, between others that lie below."""
        step = max(abs(value) * 2.0 ** (1 - self.fmt.precision), self.fmt.least_subnormal)
        near = value + np.array([0.0, 0.0, step, -step, 1.0, -1.0, 0.5, -0.5, 2.0])
        row = value - 3.0 - np.abs(self.noise())
        at = self.rng.permutation(self.columns)[: len(near)]
        row[at] = self.rng.permutation(near)[: len(at)]
        return self._finite(row)

    def _finite(self, row: Values) -> Values:
        return np.clip(row, -self.fmt.max, self.fmt.max)


def _distances_of(value: float) -> Iterable[float]:
    """Distances from the maximum that a number may stand for: in base e or 2, or as a probability."""
    size = abs(value)
    yield from (size, size * LN2, size / LN2)
    if 0.0 < size < 1.0:
        yield from (-np.log(size), -np.log2(size))
