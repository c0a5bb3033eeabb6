"""The regimes of a variant: shapes on which its calls take the same path, as exploration finds them, and what is tried in each."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import Any

from softcheck.probes.base import Subject
from softcheck.probes.outcome import SeenRegime
from softcheck.probes.predicate import EVERYWHERE, Shape, shapes_where
from softcheck.probes.shape_plan import ROW_COUNTS, WIDTHS_OF_MODELS, Space, interleaved
from softcheck.probes.walk import Stop
from softcheck.variants.exploration import explore
from softcheck.variants.signatures import CallPath, LaunchNumber, rules_of
from softcheck.variants.source import Source

_CALLS, _LEAST_SHARE = 6000, 0.2
"""Calls that an exploration makes, and the least part of them where many variants share a budget."""
_WIDE = 1000
_LEAST_TILE = 16
_MOST_IN_A_REGIME = 48
_MOST_MODULUS, _MOST_RESIDUES = 32, 100
_MOST_MODULI = 12
_MOST_MULTIPLE = 7


_OF_ITS_OWN = LaunchNumber("", None)
"""A grid that follows no size, and varies."""


@dataclass(frozen=True, slots=True)
class Regime:
    """Explored shapes on one path."""

    seen: SeenRegime
    """Several paths belong to it where a constant equals a size by chance."""
    shapes: tuple[Shape, ...]
    """Ascending by elements."""
    kernels: frozenset[str]
    tile: int | None
    """The largest constant of a launch that does not follow the input's size and may be a tile's width."""
    programs: float
    """Programs of a call for each of its rows, as many as the largest share of an explored call, and at most 1."""


def regimes_of(subject: Subject, source: Source, space: Space) -> list[Regime]:
    """Explores a variant and returns its regimes, those of the smallest shapes first."""
    rows, columns = _grid(space)
    most = max(space.most_elements, 2**24 // subject.setting.operation.per_logit(max(columns)))
    found = _explored(
        subject,
        source,
        max(_LEAST_SHARE, subject.setting.time_share),
        shapes=_coupled(source, space),
        rows=rows,
        columns=columns,
        most_elements=most,
    )
    return _regimes(found)


def paths_of(subject: Subject, source: Source, shapes: Sequence[Shape]) -> Mapping[Shape, CallPath]:
    """Maps shapes to the paths that calls on them take, as far as these are found."""
    most = max((shape.elements for shape in shapes), default=0)
    return _explored(subject, source, 1.0, shapes=shapes, most_elements=most)


def _explored(subject: Subject, source: Source, share: float, **asked: Any) -> Mapping[Shape, CallPath]:
    """Explores a variant in a share of the calls; a call of torch on heads computes, and counts for several."""
    setting = subject.setting
    function, calls = subject.variant.function, round(_CALLS * share / setting.cost_of_call)
    per_logit = setting.operation.per_logit(_WIDE)
    found = explore(function, source, setting.dtype, subject.device, most_calls=calls, per_logit=per_logit, **asked)
    return {Shape(*shape): path for shape, path in found.items()}


def in_regimes(space: Space, regimes: Sequence[Regime]) -> Iterator[Stop]:
    """In each regime its narrowest shapes, 1 to 8 tiles more than these have, and random shapes."""
    return interleaved([list(islice(_in_regime(regime, space), _MOST_IN_A_REGIME)) for regime in regimes])


def _in_regime(regime: Regime, space: Space) -> Iterator[Stop]:
    shapes = [shape for shape in regime.shapes if space.fits(shape)]
    if not shapes:
        return
    rows, tile = [shape.rows for shape in shapes], regime.tile

    def at(rows: int, columns: int) -> Stop:
        found = space.at(rows, columns)
        return replace(found, tile=tile or found.tile, programs=regime.programs)

    def widened(shape: Shape) -> Stop:
        """With as many rows as a call may hold, if the regime holds so many."""
        return at(max(shape.rows, min(space.free(shape.columns).rows, max(rows))), shape.columns)

    narrowest = min(shapes, key=lambda shape: shape.columns)
    # In one column every answer is 1, and in two one logit decides.
    first = max(shapes, key=lambda shape: (min(shape.columns, 3), -shape.elements))
    widest = max(shapes, key=lambda shape: shape.columns)
    yield replace(widened(first), purse="first")
    if 1 < first.rows < max(rows):
        # One row more than whole tiles of rows.
        yield replace(at(first.rows + 1, first.columns), purse="first")
    yield at(*shapes[0])
    yield widened(narrowest)
    counts = space.rng.permutation(8).tolist() if tile is not None else []
    whole = 0 if tile is None else narrowest.columns // tile * tile
    ends = [whole + (tile or 1) * (count + 1) + 1 for count in counts]
    some = [shapes[i] for i in space.rng.integers(0, min(len(shapes), 4 * _MOST_IN_A_REGIME), _MOST_IN_A_REGIME)]
    # The last shapes on this side of a boundary in rows or in elements are among them.
    others = [widest, max(shapes, key=lambda shape: (shape.rows, shape.columns)), shapes[-1], *some]
    for end, shape in zip_longest(ends, others):
        if end is not None and end <= widest.columns:
            yield at(first.rows, end)
            yield at(first.rows, end - 1)
        if shape is not None:
            yield at(*shape)


def _grid(space: Space) -> tuple[list[int], list[int]]:
    """Row counts and widths, ascending, between which boundaries are looked for."""
    around = [n + d for n in space.numbers for d in (-1, 0, 1)]
    multiples = [n * int(space.rng.integers(3, _MOST_MULTIPLE)) for n in space.numbers]
    powers = [2**k + d for k in range(18) for d in (0, 1)]
    columns = {n for n in (*around, *multiples, *powers, *WIDTHS_OF_MODELS) if 0 < n <= space.most_columns}
    rows = {n for n in (*ROW_COUNTS, *around, *powers) if 0 < n <= space.most_elements}
    return sorted(rows), sorted(columns)


def _coupled(source: Source, space: Space) -> list[Shape]:
    """Squares, and row counts and widths of telling residues modulo numbers, where the source has conditions.

    Modulo small numbers these are all residues. Modulo others they are 0, 1 and the last one, from each larger number on:
    what is left over may take a path of its own, from some size on alone.
    """
    if not source.condition_lines:
        return []
    squares = [Shape(n, n) for n in (2, 5, 64, 129, *space.boundaries)]
    residues = [r for n in source.sizes if n <= _MOST_MODULUS for r in range(n, 2 * n)][:_MOST_RESIDUES]
    own = [n for n in source.sizes if n < space.most_columns][:_MOST_MODULI]
    for start in own:
        residues += [-(-start // n) * n + n + d for n in own if n <= start for d in (1, 0, -1)]
    narrow = [shape for n in dict.fromkeys(residues) for shape in (Shape(n, 3), Shape(2, n))]
    return [shape for shape in (*squares, *narrow) if space.fits(shape)]


def _regimes(found: Mapping[Shape, CallPath]) -> list[Regime]:
    """Groups shapes whose paths differ in no number but by chance: a number is of the rule that explains most calls."""
    kinds = {shape: (_without_numbers(path), tuple[LaunchNumber, ...]()) for shape, path in found.items()}
    rules = {shape: [each for one in path.launches for each in rules_of(one, shape)] for shape, path in found.items()}
    for number in range(max(map(len, rules.values()), default=0)):
        of_number = {shape: each[number] for shape, each in rules.items() if number < len(each)}
        # Of the rules that give a number the first is the simplest.
        explained = Counter((kinds[shape], each[0]) for shape, each in of_number.items())
        unruled: dict[object, set[LaunchNumber]] = defaultdict(set)
        for shape, each in of_number.items():
            unruled[kinds[shape]] |= {each[0]} if len(each) == 1 and not each[0].name else set()
        for shape, each in of_number.items():
            # A grid that follows no size, and varies, has no number.
            is_varying = len(each) == 1 and len(unruled[kinds[shape]]) > 1
            chosen = _OF_ITS_OWN if is_varying else max(each, key=lambda rule: explained[kinds[shape], rule])
            of_number[shape] = [chosen]
        kinds |= {shape: (kinds[shape][0], (*kinds[shape][1], each[0])) for shape, each in of_number.items()}
    joined: dict[tuple[object, tuple[LaunchNumber, ...]], list[Shape]] = defaultdict(list)
    for shape, kind in kinds.items():
        joined[kind].append(shape)
    regimes = []
    for (_, told), unsorted in joined.items():
        shapes, left = sorted(unsorted, key=lambda shape: (shape.elements, shape)), iter(told)
        path = found[shapes[0]]
        where = shapes_where(list(found), set(shapes)) if len(joined) > 1 else EVERYWHERE
        launches = dict.fromkeys(
            launch._replace(numbers=tuple(islice(left, len(launch.numbers)))) for launch in path.launches
        )
        tiles = [number.value for launch in launches for number in launch.numbers if number.name and not number.rule]
        seen = SeenRegime(
            words="all shapes" if where == EVERYWHERE else where.words(),
            where=where,
            launches=tuple(map(str, launches)) or path.operations,
            paths=tuple(sorted({found[shape].name for shape in shapes})),
            narrowest=shapes[0],
        )
        regimes.append(
            Regime(
                seen,
                tuple(shapes),
                frozenset(launch.kernel for launch in launches),
                max((n for n in tiles if isinstance(n, int) and n >= _LEAST_TILE), default=None),
                min(1.0, max(_programs(found[shape]) / shape.rows for shape in shapes)),
            )
        )
    return sorted(regimes, key=lambda regime: regime.shapes[0].elements)


def _programs(path: CallPath) -> int:
    return sum(math.prod(int(size.value or 1) for size in launch.grid) for launch in path.launches)


def _without_numbers(path: CallPath) -> tuple[object, ...]:
    launches = tuple((launch.kernel, tuple(number.name for number in launch.numbers)) for launch in path.launches)
    return launches, path.lines, path.branches, path.operations
