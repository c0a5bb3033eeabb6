"""The shapes that fail among those tried, as a predicate over rows and columns together. Imports no torch.

As in ``predicate``, it holds for exactly the failing ones of the tried shapes and proves nothing about others.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import chain

import msgspec

from softcheck.facts import Measure, Sizes, Where
from softcheck.probes.predicate import sizes_of
from softcheck.probes.shape_plan import Shape

_FEWEST, _FEWEST_EQUAL = 2, 3
"""Failing shapes for a predicate, and for one that says that a size equals a number: of fewer a list says as much."""

_SHOWN = 4
_LONGEST = 70
"""Characters of a predicate, beyond which a list of shapes says more."""

_MEASURES: tuple[tuple[Measure, Callable[[Shape], int]], ...] = (
    ("columns", lambda shape: shape.columns),
    ("rows", lambda shape: shape.rows),
    ("elements", lambda shape: shape.elements),
)

EVERYWHERE = Where(any_of=((),))


def shapes_where(tried: Collection[Shape], failing: Collection[Shape]) -> Where:
    """Returns the simplest predicate that holds for exactly the failing shapes, or the smallest of these.

    ``failing`` is a non-empty part of ``tried``. A condition on columns, rows or elements alone comes first, then a
    limit of one measure together with a condition on another, such as "rows >= 8192 and columns > 256". Last comes what
    holds for exactly the other shapes, as in "not (rows >= 32 and columns <= 64)".
    """
    if len(failing) == len(tried):
        return EVERYWHERE
    passing = set(tried) - set(failing)
    negated = (msgspec.structs.replace(found, negated=True) for found in _together(tried, passing))
    if set(failing) == {shape for shape in tried if shape.rows == shape.columns}:
        return Where(squares=True)
    for found in chain(_alone(tried, failing), _together(tried, failing), negated):
        fewest = _FEWEST_EQUAL if any(_is_equal(each) for group in found.any_of for each in group) else _FEWEST
        if len(found.words()) <= _LONGEST and len(failing) >= fewest:
            return found
    shown = sorted(failing, key=lambda shape: shape.elements)[:_SHOWN]
    return Where(shapes=tuple((s.rows, s.columns) for s in shown), more=len(failing) - len(shown))


def _is_equal(condition: Sizes) -> bool:
    return condition.is_listed or (condition.least is not None and condition.least == condition.most)


def _alone(tried: Collection[Shape], failing: Collection[Shape]) -> Iterator[Where]:
    for of, measure in _MEASURES:
        broken = {measure(shape) for shape in failing}
        if all(shape in failing for shape in tried if measure(shape) in broken):
            found = sizes_of(sorted({measure(shape) for shape in tried}), broken, of)
            # Where no rule holds, shapes say more than ranges of one measure, or than single numbers of elements.
            is_listed = any(each.ranges and not each.is_listed for each in found)
            is_limit = len(found) == 1 and found[0].is_interval and None in (found[0].least, found[0].most)
            if not is_listed and (of != "elements" or is_limit):
                yield Where(any_of=tuple((each,) for each in found))


def _together(tried: Collection[Shape], failing: Collection[Shape]) -> Iterator[Where]:
    for of, measure in (_MEASURES[1], _MEASURES[0], _MEASURES[2]):
        sizes = [measure(shape) for shape in failing]
        low, high = min(sizes), max(sizes)
        limits = [Sizes(of=of, least=low), Sizes(of=of, most=high)]
        for limit in ([Sizes(of=of, least=low, most=high)] if low == high else []) + limits:
            within = [shape for shape in tried if limit.holds(measure(shape))]
            if not set(failing) <= set(within) or len(within) == len(tried):
                continue
            if len(within) == len(failing):
                yield Where(any_of=((limit,),))
            for others in _alone(within, failing):
                other = others.only
                if other is not None and other.of != of and not other.is_everything:
                    yield Where(any_of=((limit, other),))
