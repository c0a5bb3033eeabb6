"""The regimes of a variant: shapes on which its calls take the same path, as exploration finds them."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from softcheck.facts import Where
from softcheck.probes.base import Subject
from softcheck.probes.outcome import SeenRegime
from softcheck.probes.shape_plan import ROW_COUNTS, WIDTHS_OF_MODELS, Shape, Space
from softcheck.probes.shape_predicate import EVERYWHERE, shapes_where
from softcheck.variants.exploration import explore
from softcheck.variants.signatures import CallPath, Launch
from softcheck.variants.source import Source

_SECONDS, _LEAST_SHARE = 1.0, 0.2
_LEAST_TILE = 16
_MOST_MODULUS, _MOST_RESIDUES = 32, 100
_MOST_MODULI = 12
_MOST_MULTIPLE = 7


@dataclass(frozen=True, slots=True)
class Regime:
    """Explored shapes on one path."""

    shapes: tuple[Shape, ...]
    """Ascending by elements."""
    launches: tuple[Launch, ...]
    operations: tuple[str, ...]
    """Operations of torch."""
    paths: frozenset[str]
    """Names of the paths of its shapes: several, where a constant equals a size by chance."""
    where: Where
    """A predicate that holds for these of all explored shapes."""

    def seen(self) -> SeenRegime:
        """The regime in a form that travels between processes."""
        return SeenRegime(
            words="all shapes" if self.where == EVERYWHERE else self.where.words(),
            where=self.where,
            launches=tuple(map(str, self.launches)) or self.operations,
            paths=tuple(sorted(self.paths)),
            narrowest=self.shapes[0],
        )

    def programs(self, shape: Shape) -> int | None:
        """The programs that a call on this shape launches; None if that is not known."""
        found = 0
        for launch in self.launches:
            constants = {constant.name: constant.value_at(shape) for constant in launch.constants}
            sizes = [size.value_at(shape, constants) for size in launch.grid]
            if not sizes or None in sizes:
                return None
            found += math.prod(size for size in sizes if size is not None)
        return found or None

    @property
    def tile(self) -> int | None:
        """The largest constant of a launch that does not follow the input's size and may be a tile's width."""
        constants = chain.from_iterable(launch.constants for launch in self.launches)
        found = [
            c.value for c in constants if c.follows is None and isinstance(c.value, int) and c.value >= _LEAST_TILE
        ]
        return max(found, default=None)


def regimes_of(subject: Subject, source: Source, space: Space, rng: np.random.Generator) -> list[Regime]:
    """Explores a variant and returns its regimes, those of the smallest shapes first."""
    rows, columns = _grid(space, rng)
    found = explore(
        subject.variant.function,
        source,
        subject.setting.dtype,
        subject.device,
        shapes=_coupled(source, space),
        rows=rows,
        columns=columns,
        most_elements=max(space.most_elements, 2**24 // subject.setting.operation.per_logit(max(columns))),
        seconds=_SECONDS * max(_LEAST_SHARE, subject.setting.time_share) * subject.setting.slowness,
    )
    return _regimes({Shape(*shape): path for shape, path in found.items()})


def paths_of(subject: Subject, source: Source, shapes: Sequence[Shape]) -> Mapping[Shape, CallPath]:
    """Maps shapes to the paths that calls on them take, as far as these are found."""
    most = max((shape.elements for shape in shapes), default=0)
    function, dtype, device = subject.variant.function, subject.setting.dtype, subject.device
    seconds = _SECONDS / 2 * subject.setting.slowness
    found = explore(function, source, dtype, device, shapes=shapes, most_elements=most, seconds=seconds)
    return {Shape(*shape): path for shape, path in found.items()}


def _grid(space: Space, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Row counts and widths, ascending, between which boundaries are looked for."""
    around = [n + d for n in space.numbers for d in (-1, 0, 1)]
    multiples = [n * int(rng.integers(3, _MOST_MULTIPLE)) for n in space.numbers]
    powers = [2**k + d for k in range(18) for d in (0, 1)]
    columns = {n for n in (*around, *multiples, *powers, *WIDTHS_OF_MODELS) if 0 < n <= space.most_columns}
    rows = {n for n in (*ROW_COUNTS, *around, *powers) if 0 < n <= space.most_elements}
    return sorted(rows), sorted(columns)


def _coupled(source: Source, space: Space) -> list[Shape]:
    """Squares, and row counts and widths of telling residues modulo numbers, where a condition asks for shapes.

    Modulo small numbers these are all residues. Modulo others they are 0, 1 and the last one, from each larger number on:
    what is left over may take a path of its own, from some size on alone.
    """
    if "shape" not in source.circumstances:
        return []
    squares = [Shape(n, n) for n in (2, 5, 64, 129, *space.boundaries)]
    residues = [r for n in source.sizes if n <= _MOST_MODULUS for r in range(n, 2 * n)][:_MOST_RESIDUES]
    own = [n for n in source.sizes if n < space.most_columns][:_MOST_MODULI]
    for start in own:
        residues += [-(-start // n) * n + n + d for n in own if n <= start for d in (1, 0, -1)]
    narrow = [shape for n in dict.fromkeys(residues) for shape in (Shape(n, 3), Shape(2, n))]
    return [shape for shape in (*squares, *narrow) if space.fits(shape)]


def _regimes(found: Mapping[Shape, CallPath]) -> list[Regime]:
    alike: dict[tuple[object, ...], list[Shape]] = defaultdict(list)
    for shape, path in found.items():
        alike[path.key].append(shape)
    groups = _without_coincidences([_modelled([(s, found[s]) for s in shapes]) for shapes in alike.values()])
    regimes = []
    for group in groups:
        shapes = sorted((shape for shape, _ in group), key=lambda shape: (shape.elements, shape))
        path = group[0][1]
        where = shapes_where(list(found), set(shapes)) if len(groups) > 1 else EVERYWHERE
        paths = frozenset(path.name for _, path in group)
        regimes.append(Regime(tuple(shapes), path.launches, path.operations, paths, where))
    return sorted(regimes, key=lambda regime: regime.shapes[0].elements)


_Group = list[tuple[Shape, CallPath]]


def _modelled(group: _Group) -> _Group:
    """The group with a first path that stands for all: a grid that follows no size and varies has no number there."""
    shape, path = group[0]
    launches = tuple(
        launch._replace(
            grid=tuple(
                size._replace(value=None)
                if not size.of and len({other.launches[i].grid[k].value for _, other in group}) > 1
                else size
                for k, size in enumerate(launch.grid)
            )
        )
        for i, launch in enumerate(path.launches)
    )
    return [(shape, path._replace(launches=launches)), *group[1:]]


def _without_coincidences(groups: Sequence[_Group]) -> list[_Group]:
    """Joins each member of a group whose constants equal a size by chance with a larger group that explains its values."""
    kept: list[_Group] = []
    for group in sorted(groups, key=len, reverse=True):
        hosts = [
            max((other for other in kept if _explains(other[0][1], *member)), key=_following, default=None)
            for member in group
        ]
        if None in hosts:
            kept.append(group)
            continue
        for host, member in zip(hosts, group, strict=True):
            assert host is not None
            host.append(member)
    return kept


def _following(group: _Group) -> int:
    """The numbers of a group's launches that follow the input's size."""
    launches = group[0][1].launches
    return sum(bool(c.follows) for launch in launches for c in launch.constants) + sum(
        bool(size.of) for launch in launches for size in launch.grid
    )


def _explains(model: CallPath, shape: Shape, path: CallPath) -> bool:
    """True if a path of this shape is what the model's path would be for the shape."""
    if len(model.launches) != len(path.launches) or model._replace(launches=()).key != path._replace(launches=()).key:
        return False
    return all(map(partial(_explains_launch, shape), model.launches, path.launches))


def _explains_launch(shape: Shape, model: Launch, launch: Launch) -> bool:
    constants = {c.name: c.value_at(shape) for c in model.constants}
    found = {c.name: c.value for c in launch.constants}
    if model.kernel != launch.kernel or constants != found or len(model.grid) != len(launch.grid):
        return False
    return all(
        size.value_at(shape, constants) in {real.value, None}
        for size, real in zip(model.grid, launch.grid, strict=True)
    )
