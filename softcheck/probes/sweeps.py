"""Probes over sizes, as a table of sweeps: the shapes that each tries, the rows that it puts there, and what varies.

``sizes`` tries every width from 1 to 1100, widths around powers of two up to 2^17, and wide rows up to 2^20. ``grid_limits`` tries row
counts around the limits of grids (65535 in y and z) and of persistent grids, and 0 rows. ``shapes`` tries row counts and wide rows in
every layout; a width that is wrong in three packed rows is left to ``sizes``, and a layout that is wrong in three rows of 129 columns to
``meetings``. ``batches`` tries means and sums over matrices of other row counts than the cases have: losses are added up in chunks, in
partial sums or by programs of several rows each, and what is left over may count for too much or too little.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from oracles.formats import Bits, decode, encode
from softcheck.cases.case import PACKED, Layout
from softcheck.cases.matrix_layouts import strided_layouts
from softcheck.facts import Measure
from softcheck.operations.targets import in_rows
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.predicate import Shape
from softcheck.probes.shape_plan import ROW_COUNTS, interleaved
from softcheck.probes.space.contents import edge_rows, ordinary_rows, unlike_rows
from softcheck.probes.sweep import Done, concluded
from softcheck.probes.walk import Purse, Stop, Walk
from softcheck.variants.source import source_of


@dataclass(frozen=True, slots=True)
class Series:
    """The shapes of one trial: those that are tried whatever they cost, and those for which there is a budget."""

    needed: tuple[Shape, ...]
    dispensable: tuple[Shape, ...] = ()
    layout: str = "packed"
    of_source: bool = False
    """True for the row counts that the variant's source suggests, beside these."""

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """All of them."""
        return (*self.needed, *self.dispensable)

    def placing(self, shape: Shape) -> Layout:
        """Returns how a matrix of this shape lies."""
        return {"packed": PACKED, "offset": Layout(offset=1), **strided_layouts(*shape)}[self.layout]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProbe(Probe):
    """Judges a variant at many shapes, and says for which of them it is wrong."""

    of: Measure
    named: str
    """The word for several sizes."""
    plan: Callable[[Setting], Iterable[tuple[str, Series]]]
    """Returns the trials by label."""
    rows: Callable[[Setting, Shape, str], Iterable[Bits]]
    """Makes the inputs of one shape in a layout."""
    budget: int
    budget_interpreted: int
    """Cost of the dispensable shapes of one trial."""
    beside: Callable[[Setting, Shape], Sequence[Shape]] = lambda _setting, _shape: ()
    """Returns the shapes in which a wrong one, and the next right one, are tried again: a line through it."""
    left_to_others: Callable[[Series], Sequence[Series]] = lambda _series: ()
    """Returns what others find: a trial that is wrong there too has no finding."""
    tells_layouts: bool = False
    one_by_one: bool = False

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Returns a trial for each series of the plan."""
        return [Trial(label, series) for label, series in dict(self.plan(setting)).items()]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Judges calls at each shape. What is wrong in what other probes try too is theirs."""
        series: Series = trial.parameters
        outcome = self._walked(subject, series)
        if outcome.violations and not outcome.fatal:
            known = self.left_to_others(series)
            if any(self._walked(subject, each, is_known=True).violations for each in known):
                return Outcome()
        return outcome

    def _walked(self, subject: Subject, series: Series, *, is_known: bool = False) -> Outcome:
        setting = subject.setting
        dispensable = (*series.dispensable, *(_of_source(subject) if series.of_source else ()))
        walk = Walk(
            subject,
            lambda point: self.rows(setting, point.shape, series.layout),
            (self.budget if setting.on_gpu else self.budget_interpreted) * setting.time_share,
            layout=series.placing,
            beside=lambda shape: () if is_known else [self.beside(setting, shape)],
            one_by_one=self.one_by_one,
            # Not all of what a head takes more of is as dear as a logit.
            weight=max(1.0, setting.operation.per_logit(_USUAL) / 4),
        )
        purses: tuple[tuple[Purse, Sequence[Shape]], ...] = (("needed", series.needed), ("usual", dispensable))
        return walk.of(Stop(shape, purse) for purse, shapes in purses for shape in shapes)

    def conclude(self, done: Done) -> Conclusion:
        """Returns one finding per kind, with the sizes that show it as a predicate."""
        layout_of: Callable[[Trial], str] = lambda trial: trial.parameters.layout if self.tells_layouts else ""  # noqa: E731
        return concluded(done, self.of, self.named, layout_of)


_DENSE_TO, _BATCH = 1100, 100
_POWERS = tuple(2**k + d for k in range(11, 18) for d in (-1, 0, 1))
_WIDEST = (2**18, 2**19 + 1, 2**20)
_INTERPRETED = (
    *(1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 31, 32, 33, 64, 65, 100, 127, 128, 129),
    *(255, 257, 385, 511, 512, 513, 640, 641, 769, 900, 1000, 1001, 1023, 1024, 1025, 2047, 2048, 2049, 4097),
)
"""Widths of about 80 programs of a kernel that takes one row each: around powers of two, tiles and vectors."""
_EDGES = frozenset(n + d for n in (*(2**k for k in range(12)), *range(128, 1152, 128)) for d in (-1, 0, 1))
"""Widths that are tried whatever they cost."""


def _widths(setting: Setting) -> Iterator[tuple[str, Series]]:
    """Trials of a hundred narrow widths, or of the widths around one power of two: a width may end its process."""
    asked: Iterable[int] = (*range(1, _DENSE_TO + 1), *_POWERS, *_WIDEST)
    if not setting.on_gpu:
        asked = _INTERPRETED[::2] if setting.quick else _INTERPRETED
    elif setting.quick:
        asked = sorted({n for n in _EDGES if 1 <= n <= _DENSE_TO} | set(_POWERS[:9]))
    parts: dict[tuple[int, int], list[int]] = {}
    for n in filter(setting.takes, asked):
        key = (0, (n - 1) // _BATCH) if n <= _DENSE_TO else (1, round(np.log2(n)))
        parts.setdefault(key, []).append(n)
    for part in parts.values():
        # Any first part of the widths is spread evenly over all: the reversed order of their bits.
        spread = sorted(part, key=lambda n: int(f"{n & 127:07b}"[::-1], 2))
        shapes = [Shape(_rows_at(setting, n), n) for n in spread]
        needed = tuple(shape for shape in shapes if shape.columns > _DENSE_TO or shape.columns in _EDGES)
        yield f"columns-{part[0]}-{part[-1]}", Series(needed, tuple(shape for shape in shapes if shape not in needed))


def _rows_at(setting: Setting, columns: int) -> int:
    """Rows of a width: fewer where rows cost more, under the interpreter, in float64, whose oracle is slow, and in the widest rows."""
    return 2 if not setting.on_gpu or setting.dtype == "float64" or columns > _POWERS[-1] else 4


def _edges(setting: Setting, shape: Shape, _layout: str) -> Iterator[Bits]:
    """In fewer rows than usual each of the adversarial ones is tried; in more also the same under other seeds."""
    base = _rows_at(setting, shape.columns)
    seeds = range(setting.seed, setting.seed + -(-shape.rows // base))
    rows = np.concatenate([edge_rows(shape.columns, setting.fmt, rows=base, seed=seed) for seed in seeds])
    for first in range(0, base, shape.rows):
        yield np.ascontiguousarray(rows[first : first + shape.rows])


def _in_other_rows(setting: Setting, shape: Shape) -> list[Shape]:
    counts = (1, 9, 33, 129) if setting.on_gpu else (1, 9, 33)
    return [Shape(rows, shape.columns) for rows in sorted({*counts, shape.rows})]


_GRIDS = (0, 1, 2, 3, 5, 9, 17)
"""Row counts under the interpreter: more rows than the 4 programs of a persistent grid, or than a tile of several
rows."""
_GRIDS_ON_GPU = (31, 33, 64, 65, 127, 129, 132, 133, 257, 1025)
_LARGE_GRIDS = (65535, 65536, 65537, 2**20 + 1)
_FIVE, _COLUMNS_OF_GRIDS = 5, 300


def _grids(setting: Setting) -> Iterator[tuple[str, Series]]:
    columns = _FIVE if setting.on_gpu else _COLUMNS_OF_GRIDS
    few = [Shape(rows, columns) for rows in _GRIDS if rows or setting.declaration.empty]
    if not setting.takes(columns):
        return
    if not setting.on_gpu:
        yield "few", Series(tuple(few[:5] if setting.quick else few))
        return
    if not setting.quick:
        yield "few", Series((*few, *(Shape(rows, columns) for rows in _GRIDS_ON_GPU)))
    # Of float64 the numpy judge would take minutes for a million matrices.
    has_fewer = setting.dtype == "float64" and setting.operation.matrix is not None
    held = setting.held(_LARGE_GRIDS[:-1] if has_fewer else _LARGE_GRIDS, columns)
    # One trial each: a grid that is too large may ruin the device.
    for rows in held[: 2 if setting.quick else None]:
        yield f"rows-{rows}", Series((Shape(rows, columns),))


_FEWEST, _AROUND_16 = (1, 2, 3), (17, 15, 16)
_MORE = (33, 129, 65, 32, 64, 31, 63, 128, 127, 257, 256, 1025)
"""Row counts around tiles of rows, those first that show most: one more than whole tiles."""
_MANY = (4097, 4095, 4096)
_VERY_MANY = (65535, 65536, 65537, 2**20)
_USUAL, _KNOWN_ROWS = 129, 3
_WIDE, _WIDE_ON_GPU = (1100, 2500), (2050, 8193)
_WHOLE = (640, 4096)
"""Widths of whole vectors, tried with rows that do not begin at whole vectors: a kernel may ask for the width alone."""
_OTHER_WIDTHS = (2, 64, _USUAL, 300, 1100)
_LAYOUTS = ("transposed", "row-step", "column-slice", "every-second-column", "expanded-rows")
_MOST_ELEMENTS = 2**24


def _row_counts(setting: Setting) -> Iterator[tuple[str, Series]]:
    """Few rows, tiles of rows and their neighbours, very many rows, and wide rows, in every layout.

    Each layout begins with another dispensable count, so that a slow kernel meets all of them in some layout.
    """
    strided = _LAYOUTS if "strided" in setting.declaration.layouts else ()
    # The rows of heads' operands lie apart wherever the matrix is not packed.
    layouts = ["packed", *strided[:1]] if setting.has_heads else ["packed", "offset", *strided]
    is_long, quick = setting.dtype == "float64", setting.quick
    has_more = setting.on_gpu and not (is_long or quick)
    for number, layout in enumerate(layouts):
        more = [*_MORE[number % 7 :], *_MORE[: number % 7]]
        # Of float64 the numpy judge takes seconds for a million elements.
        more += _MANY if not is_long and (setting.on_gpu or layout == "packed") else ()
        more = [*(_drawn(setting) if layout == "packed" else ()), *more]
        yield from _series(setting, layout, _USUAL, _FEWEST, (*_AROUND_16, *(() if quick else more)))
        for columns in _WIDE_ON_GPU if setting.on_gpu else _WIDE:
            yield from _series(setting, layout, columns, _FEWEST)
        if has_more:
            yield from _series(setting, layout, _FIVE, setting.held(_VERY_MANY, _FIVE))
    if strided and not setting.has_heads:
        for columns in _WHOLE:
            yield from _series(setting, "padded-by-1", columns, _FEWEST)
    for columns in range(1, 9) if has_more else ():
        # Of heads, which are fewer, the largest number may be there already.
        yield from _series(setting, "packed", columns, [setting.fewer(_MOST_ELEMENTS // columns, columns)])


def _series(
    setting: Setting, layout: str, columns: int, needed: Sequence[int], dispensable: Sequence[int] = ()
) -> Iterator[tuple[str, Series]]:
    if setting.takes(columns):
        low, high = min((*needed, *dispensable)), max((*needed, *dispensable))
        asked, more = (tuple(Shape(rows, columns) for rows in counts) for counts in (needed, dispensable))
        yield f"{layout}-{low if low == high else f'{low}-to-{high}'}x{columns}", Series(asked, more, layout)


def _drawn(setting: Setting) -> list[int]:
    """Row counts of each remainder modulo 8, up to 300 and up to 3000; without a GPU two of them, up to 130."""
    rng = np.random.default_rng(setting.seed)
    if not setting.on_gpu:
        return [8 * int(rng.integers(8, 16)) + int(rest) for rest in rng.permutation(8)[:2]]
    return [8 * int(rng.integers(low, 10 * low)) + rest for low in (8, 38) for rest in range(8)]


def _unlike(setting: Setting, shape: Shape, layout: str) -> Iterator[Bits]:
    if layout == "expanded-rows":
        yield np.repeat(ordinary_rows(1, shape.columns, setting.fmt, setting.seed), shape.rows, axis=0)
    else:
        yield unlike_rows(*shape, setting.fmt, setting.seed)


def _in_other_widths(setting: Setting, shape: Shape) -> list[Shape]:
    if shape.columns != _USUAL:
        return []
    return [Shape(shape.rows, n) for n in _OTHER_WIDTHS if setting.takes(n)]


def _found_by_others(series: Series) -> list[Series]:
    """Three packed rows of this width, and three rows of 129 columns in this layout."""
    return [
        Series((Shape(_KNOWN_ROWS, series.shapes[0].columns),)),
        Series((Shape(_KNOWN_ROWS, _USUAL),), layout=series.layout),
    ]


_BATCHES = (2, 129, 257, 300, 65, 1025, *ROW_COUNTS)
"""Row counts that are tried of any variant, those first that show most."""
_MOST_BATCH, _MOST_BATCH_ON_GPU = 1100, 70_000
_GROWTH = 3.0
"""Growth of some logits from the first row to the last: a row that counts for too much or too little shows."""


def _batches(setting: Setting) -> Iterator[tuple[str, Series]]:
    if setting.has_row_calls:
        yield "rows", Series((), tuple(Shape(rows, _FIVE) for rows in _BATCHES))
        if not setting.quick:
            yield "rows-of-the-source", Series((), of_source=True)


def _of_source(subject: Subject) -> list[Shape]:
    """Row counts around the numbers of a variant's source and their multiples."""
    setting = subject.setting
    most = _MOST_BATCH_ON_GPU if setting.on_gpu else _MOST_BATCH
    own = [n for n in source_of(subject.variant.function).sizes_for(setting.fmt.itemsize) if 1 < n <= most]
    plans = [(n + 1, n + n // 2 + 1, 2 * n, 3 * n - 1) for n in own]
    return [Shape(rows, _FIVE) for rows in interleaved(plans) if rows <= most]


def _growing(setting: Setting, shape: Shape, _layout: str) -> Iterator[Bits]:
    logits = decode(ordinary_rows(1, shape.elements, setting.fmt, setting.seed), setting.fmt)
    logits[0, 1::2] += np.linspace(0.0, _GROWTH, logits[0, 1::2].size)
    with in_rows(shape.rows):
        yield encode(logits, setting.fmt)


SIZES = SweepProbe(
    of="columns",
    named="widths",
    plan=_widths,
    rows=_edges,
    budget=400,
    budget_interpreted=200,
    beside=_in_other_rows,
)
GRID_LIMITS = SweepProbe(
    of="rows",
    named="row counts",
    plan=_grids,
    rows=lambda setting, shape, _: [ordinary_rows(*shape, setting.fmt, setting.seed)],
    budget=0,
    budget_interpreted=0,
)
SHAPES = SweepProbe(
    of="rows",
    named="row counts",
    plan=_row_counts,
    rows=_unlike,
    budget=1000,
    budget_interpreted=120,
    beside=_in_other_widths,
    left_to_others=_found_by_others,
    tells_layouts=True,
)
BATCHES = SweepProbe(
    of="rows", named="row counts", plan=_batches, rows=_growing, budget=2000, budget_interpreted=400, one_by_one=True
)
