"""Words for the shapes that fail among those tried, over rows and columns together. Imports no torch.

As in ``predicate``, the words hold for exactly the failing ones of the tried shapes and prove nothing about others.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import chain

from softcheck.probes.predicate import describe
from softcheck.probes.shape_plan import Shape

LISTED = "rows x columns = "
"""The beginning of a list of shapes, which stands where no predicate holds."""

_FEWEST, _FEWEST_EQUAL = 2, 3
"""Failing shapes for a predicate, and for one that says that a size equals a number: of fewer a list says as much."""

_SHOWN = 4
_LONGEST = 70
"""Characters of a predicate, beyond which a list of shapes says more."""

_MEASURES: tuple[tuple[str, Callable[[Shape], int]], ...] = (
    ("columns", lambda shape: shape.columns),
    ("rows", lambda shape: shape.rows),
    ("elements", lambda shape: shape.elements),
)


def describe_shapes(tried: Collection[Shape], failing: Collection[Shape]) -> str:
    """Returns the simplest words that hold for exactly the failing shapes, or lists the smallest of these.

    ``failing`` is a non-empty part of ``tried``. A condition on columns, rows or elements alone comes first, then a
    limit of one measure together with a condition on another, such as "rows >= 8192 and columns > 256". Last comes what
    holds for exactly the other shapes, as in "not (rows >= 32 and columns <= 64)".
    """
    if len(failing) == len(tried):
        return "all shapes tried"
    passing = set(tried) - set(failing)
    negated = (f"not ({words})" for words in _together(tried, passing))
    if set(failing) == {shape for shape in tried if shape.rows == shape.columns}:
        return "rows = columns"
    for words in chain(_alone(tried, failing), _together(tried, failing), negated):
        if len(words) <= _LONGEST and len(failing) >= (_FEWEST_EQUAL if " = " in words else _FEWEST):
            return words
    shown = sorted(failing, key=lambda shape: shape.elements)[:_SHOWN]
    more = f" and {len(failing) - _SHOWN} more" if len(failing) > _SHOWN else ""
    return f"{LISTED}{', '.join(map(str, shown))}{more}"


def _alone(tried: Collection[Shape], failing: Collection[Shape]) -> Iterator[str]:
    for symbol, measure in _MEASURES:
        broken = {measure(shape) for shape in failing}
        if all(shape in failing for shape in tried if measure(shape) in broken):
            words = describe(sorted({measure(shape) for shape in tried}), broken, symbol)
            # Where no rule holds, shapes say more than ranges of one measure, or than single numbers of elements.
            if " in " not in words and (symbol != "elements" or words.startswith(("elements >", "elements <"))):
                yield words


def _together(tried: Collection[Shape], failing: Collection[Shape]) -> Iterator[str]:
    limits: list[tuple[str, int | None, int | None]]
    for symbol, measure in (_MEASURES[1], _MEASURES[0], _MEASURES[2]):
        sizes = [measure(shape) for shape in failing]
        low, high = min(sizes), max(sizes)
        limits = [(f"{symbol} >= {low}", low, None), (f"{symbol} <= {high}", None, high)]
        for words, least, most in ([(f"{symbol} = {low}", low, high)] if low == high else []) + limits:
            within = [s for s in tried if (least or 0) <= measure(s) <= (measure(s) if most is None else most)]
            if not set(failing) <= set(within) or len(within) == len(tried):
                continue
            if len(within) == len(failing):
                yield words
            for others in _alone(within, failing):
                if not others.startswith((symbol, "all ")):
                    yield f"{words} and {others}"
