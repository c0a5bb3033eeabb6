"""Probes over sizes, as a table of sweeps: the shapes that each tries, the rows that it puts there, and what varies.

``sizes`` tries every width from 1 to 1100, widths around powers of two up to 2^17, and wide rows up to 2^20. ``grid_limits`` tries row
counts around the limits of grids (65535 in y and z) and of persistent grids, and 0 rows. ``shapes`` tries row counts around tiles of
rows, and very many short rows; a width that is wrong in three rows is left to ``sizes``. Row counts meet layouts in ``meetings``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from oracles.formats import Bits
from softcheck.contract import FindingKind
from softcheck.facts import Measure, Sweep
from softcheck.probes.base import Probe, Setting, Subject, Trial, TrialTable
from softcheck.probes.outcome import Conclusion, Outcome, Shown
from softcheck.probes.predicate import Shape, where_of
from softcheck.probes.space.contents import unlike_rows
from softcheck.probes.walk import Stop, Walk, merged

Done = Sequence[tuple[Trial, Outcome]]
Trials = Iterator[tuple[str, list[Stop]]]
"""The shapes of each trial by label: first those that are tried whatever they cost, then those with a budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProbe(TrialTable):
    """Judges a variant at many shapes, and says for which of them it is wrong."""

    of: Measure
    named: str
    """The word for several sizes."""
    rows: Callable[[Setting, Shape], Iterable[Bits]]
    """Makes the inputs of one shape."""
    budget: int
    budget_interpreted: int
    """Cost of the shapes of one trial for which there is a budget."""
    beside: Callable[[Setting, Shape], Sequence[Shape]] = lambda _setting, _shape: ()
    """Returns the shapes in which a wrong one, and the next right one, are tried again: a line through it."""
    left_to_others: Shape | None = None
    """A shape that another probe tries too: what is wrong there is no finding of this one."""

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Judges calls at each shape."""
        setting = subject.setting
        walk = Walk(
            subject,
            lambda point: self.rows(setting, point.shape),
            (self.budget if setting.on_gpu else self.budget_interpreted) * setting.time_share,
            beside=lambda shape: [self.beside(setting, shape)],
            # Not all of what a head takes more of is as dear as a logit.
            weight=max(1.0, setting.operation.per_logit(_USUAL) / 4),
        )
        outcome = walk.of(trial.parameters)
        is_known = any(self.left_to_others in shapes for shapes in outcome.failing.values())
        return Outcome() if is_known and not outcome.fatal else outcome

    def conclude(self, done: Done) -> Conclusion:
        """Returns one finding per kind, with the sizes that show it as a predicate."""
        return concluded(done, self.of, self.named)


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


def _needed(shapes: Iterable[Shape]) -> list[Stop]:
    return [Stop(shape, "needed") for shape in shapes]


def _widths(setting: Setting) -> Trials:
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
        needed = _needed(shape for shape in shapes if shape.columns > _DENSE_TO or shape.columns in _EDGES)
        yield f"columns-{part[0]}-{part[-1]}", [*needed, *map(Stop, shapes)]


def _rows_at(setting: Setting, columns: int) -> int:
    """Rows of a width: fewer where rows cost more, under the interpreter, in float64, whose oracle is slow, and in the widest rows."""
    return 2 if not setting.on_gpu or setting.dtype == "float64" or columns > _POWERS[-1] else 4


def _in_parts(setting: Setting, shape: Shape) -> Iterator[Bits]:
    """In fewer rows than usual each of the usual ones is tried."""
    usual = _rows_at(setting, shape.columns)
    rows = unlike_rows(max(usual, shape.rows), shape.columns, setting.fmt, setting.seed)
    yield from (rows[first : first + shape.rows] for first in range(0, usual, shape.rows))


def _in_other_rows(setting: Setting, shape: Shape) -> list[Shape]:
    counts = (1, 9, 33, 129) if setting.on_gpu else (1, 9, 33)
    return [Shape(rows, shape.columns) for rows in sorted({*counts, shape.rows})]


_GRIDS = (0, 1, 2, 3, 5, 9, 17)
"""Row counts under the interpreter: more rows than the 4 programs of a persistent grid, or than a tile of several
rows."""
_GRIDS_ON_GPU = (31, 33, 64, 65, 127, 129, 132, 133, 257, 1025)
_LARGE_GRIDS = (65535, 65536, 65537, 2**20 + 1)
_FIVE, _COLUMNS_OF_GRIDS = 5, 300


def _grids(setting: Setting) -> Trials:
    columns = _FIVE if setting.on_gpu else _COLUMNS_OF_GRIDS
    few = [Shape(rows, columns) for rows in _GRIDS if rows or setting.declaration.empty]
    if not setting.takes(columns):
        return
    if not setting.on_gpu:
        yield "few", _needed(few[:5] if setting.quick else few)
        return
    if not setting.quick:
        yield "few", _needed([*few, *(Shape(rows, columns) for rows in _GRIDS_ON_GPU)])
    # Of float64 the numpy judge would take minutes for a million matrices.
    has_fewer = setting.dtype == "float64" and setting.operation.matrix is not None
    held = setting.held(_LARGE_GRIDS[:-1] if has_fewer else _LARGE_GRIDS, columns)
    # One trial each: a grid that is too large may ruin the device.
    for rows in held[: 2 if setting.quick else None]:
        yield f"rows-{rows}", _needed([Shape(rows, columns)])


_FEWEST, _AROUND_16 = (1, 2, 3), (17, 15, 16)
_MORE = (33, 129, 65, 32, 64, 31, 63, 128, 127, 257, 256, 1025)
"""Row counts around tiles of rows, those first that show most: one more than whole tiles."""
_MANY = (4097, 4095, 4096)
_USUAL, _KNOWN_ROWS = 129, 3
_OTHER_WIDTHS = (2, 64, _USUAL, 300, 1100)
_MOST_ELEMENTS = 2**24
_TALL = Shape(_MOST_ELEMENTS + 1025, 3)
"""More rows than float32 has consecutive whole numbers."""


def _row_counts(setting: Setting) -> Trials:
    """Few rows, tiles of rows and their neighbours, and 2^24 elements in short rows."""
    is_long, quick = setting.dtype == "float64", setting.quick
    if setting.takes(_USUAL):
        # Of float64 the numpy judge takes seconds for a million elements.
        more = [] if quick else [*_drawn(setting), *_MORE, *(() if is_long else _MANY)]
        few, others = ([Shape(rows, _USUAL) for rows in counts] for counts in (_FEWEST, (*_AROUND_16, *more)))
        yield f"1-to-{max(others).rows}x{_USUAL}", [*_needed(few), *map(Stop, others)]
    tall = [Shape(setting.fewer(_MOST_ELEMENTS // columns, columns), columns) for columns in range(1, 9)]
    tall += [] if setting.has_heads or setting.has_row_calls else [_TALL]
    for shape in dict.fromkeys(tall) if setting.on_gpu and not (is_long or quick) else ():
        if setting.takes(shape.columns):
            yield str(shape).replace(" ", ""), _needed([shape])


def _drawn(setting: Setting) -> list[int]:
    """Row counts of each remainder modulo 8, up to 300 and up to 3000; without a GPU two of them, up to 130."""
    rng = np.random.default_rng(setting.seed)
    if not setting.on_gpu:
        return [8 * int(rng.integers(8, 16)) + int(rest) for rest in rng.permutation(8)[:2]]
    return [8 * int(rng.integers(low, 10 * low)) + rest for low in (8, 38) for rest in range(8)]


def _in_other_widths(setting: Setting, shape: Shape) -> list[Shape]:
    if shape.columns != _USUAL:
        return []
    return [Shape(shape.rows, n) for n in _OTHER_WIDTHS if setting.takes(n)]


def _unlike(setting: Setting, shape: Shape) -> list[Bits]:
    return [unlike_rows(*shape, setting.fmt, setting.seed)]


SIZES = SweepProbe(
    of="columns",
    named="widths",
    plan=_widths,
    rows=_in_parts,
    budget=400,
    budget_interpreted=200,
    beside=_in_other_rows,
)
GRID_LIMITS = SweepProbe(
    of="rows",
    named="row counts",
    plan=_grids,
    rows=_unlike,
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
    left_to_others=Shape(_KNOWN_ROWS, _USUAL),
)


def concluded(done: Done, of: Measure | None = None, named: str = "shapes") -> Conclusion:
    """Returns one finding per kind, and one for each violation that belongs to no shape.

    ``of`` is what the shapes vary in, None for both sizes; ``named`` is the word for several of them.
    """
    tried = {Shape(*shape) for _, outcome in done for shape in outcome.tried}
    failing = {
        kind: {Shape(*shape) for _, outcome in done for shape in outcome.failing.get(kind, ())} for kind in FindingKind
    }
    alike = [_of_kind(done, kind, tried, failing[kind], of, named) for kind in FindingKind if failing[kind]]
    others = [
        Shown(trial.label, violation)
        for trial, outcome in done
        for violation in outcome.violations
        if violation.kind not in outcome.failing
    ]
    found = Probe.concluded(done, [*alike, *others])
    left_out = (f"some {named} were left out, since each trial has a budget of calls, elements and compilations",)
    is_cut = any(outcome.is_cut and outcome.tried for _, outcome in done)
    return msgspec.structs.replace(
        found,
        skipped=(*found.skipped, *(left_out if is_cut else ())),
        tried=tuple(sorted(tried)),
        failing={kind: tuple(sorted(shapes)) for kind, shapes in failing.items() if shapes},
    )


def _of_kind(
    done: Done, kind: FindingKind, tried: set[Shape], failing: set[Shape], of: Measure | None, named: str
) -> Shown:
    """Returns the finding of one kind: the smallest shape's, over all that were tried."""
    broken = [
        (min((Shape(*shape) for shape in outcome.failing[kind]), key=_by_elements), trial.label, violation)
        for trial, outcome in done
        if kind in outcome.failing
        for violation in outcome.violations
        if violation.kind is kind
    ]
    broken.sort(key=lambda found: _by_elements(found[0]))
    least, label, violation = broken[0]
    for _, _, other in broken[1:]:
        violation = merged(violation, other, first=False)
    where, swept = where_of(tried, failing, of), Sweep(failing=len(failing), tried=len(tried))
    at, refusal = f"rows = {least.rows}, columns = {least.columns}", violation.refusal
    answered = None
    if of is not None:
        sizes, wrong = ({getattr(shape, of) for shape in shapes} for shapes in (tried, failing))
        swept = Sweep.among(sizes, wrong, named)
        at = f"N = {least.columns}" if of == "columns" else at
        most = max((getattr(shape, of) for shape in tried - failing), default=0)
        answered = most if 0 < most < getattr(least, of) else None
    if refusal is not None and least.elements:
        # If a larger shape was answered, the refused one is no limit.
        is_limit = not any(s.rows >= least.rows and s.columns >= least.columns for s in tried - failing)
        refusal = msgspec.structs.replace(refusal, answered=answered) if is_limit else None
    words = where.words("N" if of == "columns" else "columns")
    found = msgspec.structs.replace(
        violation,
        message=f"{words} ({swept.words()}); at {at}: {violation.message}",
        facts=msgspec.structs.replace(violation.facts, where=where, sweep=swept),
        refusal=refusal,
    )
    return Shown(label, found)


def _by_elements(shape: Shape) -> tuple[int, Shape]:
    return shape.elements, shape
