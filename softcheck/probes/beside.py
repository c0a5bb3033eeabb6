"""Shapes beside one that breaks a promise. They tell whether its rows, its columns or both decide."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, pairwise

import msgspec

from softcheck.contract import FindingKind
from softcheck.errors import UninterpretableError
from softcheck.facts import Where
from softcheck.probes.outcome import Outcome
from softcheck.probes.shape_plan import Shape
from softcheck.probes.shape_predicate import shapes_where

_SECONDS = 0.5

Kinds = frozenset[FindingKind]
Judge = Callable[[Shape], Kinds]
"""Calls a variant on a shape and returns the kinds of promises that it breaks."""


def judge_beside(lines: Iterable[Sequence[Shape]], known: Mapping[Shape, Kinds], judge: Judge) -> dict[Shape, Kinds]:
    """Judges lines of shapes, each ascending in one size, and bisects where one breaks a promise and its neighbour none.

    Returns the known shapes and those that half a second sufficed for.
    """
    found = dict(known)
    end = time.monotonic() + _SECONDS

    def breaks(shape: Shape) -> bool:
        if shape not in found:
            found[shape] = judge(shape)
        return bool(found[shape])

    with suppress(UninterpretableError):
        for low, high in chain.from_iterable(map(pairwise, lines)):
            first, last = low, high
            while time.monotonic() < end and breaks(first) is not breaks(last):
                middle = Shape((first.rows + last.rows) // 2, (first.columns + last.columns) // 2)
                if middle == first:
                    break
                first, last = (middle, last) if breaks(middle) is breaks(first) else (first, middle)
    return found


def with_shapes(outcome: Outcome, found: Mapping[Shape, Kinds]) -> Outcome:
    """Returns the outcome of a sweep with the shapes that were judged."""
    kinds = frozenset[FindingKind]().union(*found.values())
    return msgspec.structs.replace(
        outcome,
        shapes=tuple((shape.rows, shape.columns) for shape in found),
        failing_shapes={
            kind: tuple((shape.rows, shape.columns) for shape, broken in found.items() if kind in broken)
            for kind in FindingKind
            if kind in kinds
        },
    )


def over_both(outcomes: Iterable[Outcome], kind: FindingKind, *, axis: int) -> Where | None:
    """The shapes that break a promise of this kind, as a predicate over rows and columns together.

    None where the size on this axis, 0 for rows and 1 for columns, alone decides. The predicate lists shapes or is negated
    where no plain one holds for exactly these of the judged shapes.
    """
    outcomes = list(outcomes)
    tried = {Shape(*shape) for outcome in outcomes for shape in outcome.shapes}
    failing = {Shape(*shape) for outcome in outcomes for shape in outcome.failing_shapes.get(kind, ())}
    if {shape[axis] for shape in failing}.isdisjoint(shape[axis] for shape in tried - failing):
        return None
    return shapes_where(tried, failing)


def is_plain(where: Where) -> bool:
    """True for a predicate that says more than a list of shapes, or than the shapes that were right."""
    return not where.shapes and not where.negated
