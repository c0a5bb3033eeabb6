"""Plans of the trials of ``regimes``: which shapes are tried, in what order, and within which limits."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, zip_longest

import numpy as np

from softcheck.probes import shape_plan
from softcheck.probes.base import Setting
from softcheck.probes.regime_map import Regime
from softcheck.probes.shape_plan import Shape, Space, interleaved

_MOST_IN_A_REGIME = 48


@dataclass(frozen=True, slots=True)
class PlannedShape:
    """A shape to try. ``calls`` calls hold as many adversarial rows as there are, if one call holds fewer."""

    shape: Shape
    tile: int
    calls: int = 1
    is_first: bool = False
    """True for the first shapes of a regime, which have a budget of their own."""
    programs: float = 1.0
    """Programs of a call for each of its rows."""


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """Limits of one trial on one backend."""

    budget: float
    """Cost of all calls: one for each, and what their programs and elements add."""
    budget_for_firsts: float
    """Cost beside this of the first shapes of all regimes."""
    elements_per_cost: int
    """Elements that cost as much as one program or call."""
    most_columns: int
    most_elements: int
    rows: int
    """Adversarial rows for a shape whose row count is free."""
    most_batch: int
    """Elements of a call whose row count is free; there are ``least_rows`` rows in any case."""
    least_rows: int
    calls: int
    """Calls with one row each."""


@dataclass(frozen=True, slots=True)
class Planning:
    """Everything that a plan may depend on."""

    space: Space
    limits: TrialLimits
    rng: np.random.Generator
    regimes: Callable[[], list[Regime]]
    """Explores the variant."""


Plan = Callable[[Planning], Iterator[PlannedShape]]


def _regimes(p: Planning) -> Iterator[PlannedShape]:
    """In each regime its narrowest shapes, 1 to 8 tiles more than these have, and random shapes."""
    return interleaved([list(islice(_in_regime(regime, p), _MOST_IN_A_REGIME)) for regime in p.regimes()])


def _in_regime(regime: Regime, p: Planning) -> Iterator[PlannedShape]:
    shapes = [shape for shape in regime.shapes if p.space.fits(shape)]
    if not shapes:
        return
    rows = [shape.rows for shape in shapes]
    tile = regime.tile

    def planned(rows: int, columns: int) -> PlannedShape:
        shape = Shape(rows, columns)
        return PlannedShape(shape, tile or p.space.tile_below(columns), programs=regime.programs)

    def widened(shape: Shape) -> PlannedShape:
        """With as many rows as a call may hold, if the regime holds so many."""
        free = _free(shape.columns, p.limits).rows
        return planned(max(shape.rows, min(free, max(rows))), shape.columns)

    narrow = min(shape.columns for shape in shapes)
    # In one column every answer is 1, and in two one logit decides.
    first = max(shapes, key=lambda shape: (min(shape.columns, 3), -shape.elements))
    last = max(shapes, key=lambda shape: shape.columns)
    # The last shapes on this side of a boundary in rows or in elements.
    ends_of_shapes = [max(shapes, key=lambda shape: (shape.rows, shape.columns)), shapes[-1]]
    yield replace(widened(first), is_first=True)
    if 1 < first.rows < max(rows):
        # One row more than whole tiles of rows.
        yield replace(planned(first.rows + 1, first.columns), is_first=True)
    yield planned(*shapes[0])
    yield widened(min(shapes, key=lambda shape: shape.columns))
    tiles = p.rng.permutation(8).tolist() if tile is not None else []
    ends = [narrow, first.columns, *(narrow // (tile or 1) * (tile or 1) + (tile or 1) * (k + 1) + 1 for k in tiles)]
    some = [shapes[i] for i in p.rng.integers(0, min(len(shapes), 4 * _MOST_IN_A_REGIME), _MOST_IN_A_REGIME)]
    for end, shape in zip_longest(ends[2:], [last, *ends_of_shapes, *some]):
        if end is not None and end <= last.columns:
            yield planned(first.rows, end)
            yield planned(first.rows, end - 1)
        if shape is not None:
            yield planned(*shape)


def _at(p: Planning, shapes: Iterable[tuple[int, int]]) -> Iterator[PlannedShape]:
    return (PlannedShape(Shape(*shape), p.space.tile_below(shape[1])) for shape in shapes)


def _widths(p: Planning) -> Iterator[PlannedShape]:
    widths = [*islice(shape_plan.around_boundaries(p.space), 60), *p.space.representatives(p.rng)]
    return _at(p, (_free(columns, p.limits) for columns in dict.fromkeys(widths)))


def _tiles(p: Planning) -> Iterator[PlannedShape]:
    return (PlannedShape(_free(n, p.limits), tile) for n, tile in shape_plan.tiled(p.space, p.rng))


def _single_rows(p: Planning) -> Iterator[PlannedShape]:
    widths = p.space.representatives(p.rng)
    # One width with all rows, then other widths with few.
    first = min(widths, key=lambda n: abs(n - 300))
    yield PlannedShape(Shape(1, first), p.space.tile_below(first), p.limits.calls)
    for rows in (1, 2, 3):
        few = _at(p, ((rows, columns) for columns in p.rng.permutation(widths).tolist()))
        yield from (replace(each, calls=8) for each in few)


def _free(columns: int, limits: TrialLimits) -> Shape:
    return Shape(max(limits.least_rows, min(limits.rows, limits.most_batch // columns)), columns)


EXPLORING = "regimes"
"""The trial that looks for regimes."""

_PLANS: dict[str, tuple[Plan, float]] = {
    EXPLORING: (_regimes, 0.25),
    "widths": (_widths, 0.15),
    "tiles": (_tiles, 0.15),
    "single-rows": (_single_rows, 0.2),
    "rows": (lambda p: _at(p, shape_plan.tall(p.space, p.rng)), 0.1),
    "elements": (lambda p: _at(p, shape_plan.many_elements(p.space, p.rng)), 0.15),
    "anywhere": (lambda p: _at(p, shape_plan.anywhere(p.space, p.rng)), 0.1),
}
"""Plans by trial, each with its part of the budget of a probe."""
PLANS: dict[str, Plan] = {label: plan for label, (plan, _) in _PLANS.items()}

_OF_WIDTHS = frozenset({"widths", "tiles"})
"""Trials of many widths."""

_BUDGET, _BUDGET_INTERPRETED = 5000, 2400
"""Costs of all trials together."""
_PATIENCE = 3
"""A regime may begin at some hundred rows, which cost more under the interpreter than all others."""
_WIDEST, _WIDEST_INTERPRETED = 2**18, 2**17


def limits_of(setting: Setting, label: str) -> TrialLimits:
    """Returns the limits of the trial with this label."""
    on_gpu = setting.on_gpu
    promised = (setting.declaration.column_limit(setting.dtype), setting.widest)
    widest = min(limit for limit in (*promised, _WIDEST if on_gpu else _WIDEST_INTERPRETED) if limit is not None)
    budget = (
        (_BUDGET if on_gpu else _BUDGET_INTERPRETED)
        * _PLANS[label][1]
        * setting.time_share
        / (2 if setting.quick else 1)
    )
    heavier = setting.operation.per_logit(widest)
    return TrialLimits(
        budget=budget,
        budget_for_firsts=0.0 if on_gpu else _PATIENCE * budget,
        elements_per_cost=2**19 if on_gpu else 2**13,
        most_columns=widest,
        most_elements=(2**24 if on_gpu else 2**22) // heavier,
        # Few adversarial rows show a width that is cut up wrongly, and widths are many.
        rows=192 if on_gpu else 11 if label in _OF_WIDTHS else 24,
        most_batch=((2**19 if label == "widths" else 2**17) if on_gpu else 2**13 if label in _OF_WIDTHS else 2**15)
        // heavier,
        least_rows=16 if on_gpu else 4 if label in _OF_WIDTHS else 6,
        calls=192 if on_gpu else 64,
    )
