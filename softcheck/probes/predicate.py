"""The sizes and shapes that fail among those tried, as a predicate: "odd N from 513 to 1023". Imports no torch.

The predicate summarises what was tried and proves nothing about other sizes: among the tried ones it holds for exactly the
failing ones.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby, takewhile
from typing import NamedTuple

import msgspec

from softcheck.facts import Measure, Sizes, Where

_MODULI = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 3, 5, 6, 7, 9, 10, 12, 24, 48, 96, 100, 192, 384)
"""Powers of two first, since vectors, warps, tiles and pages are powers of two."""
_FEW = 3
"""Number of sizes up to which sizes are listed rather than described: a pattern in so few points is chance."""
_FEWEST, _FEWEST_EQUAL = 2, 3
"""Failing shapes for a predicate, and for one that says that a size equals a number: of fewer a list says as much."""
_SHOWN = 4
_LONGEST = 70
"""Characters of a predicate, beyond which a list of shapes says more."""

POWER_OF_TWO = Sizes(modulus=1)
PADDED = Sizes(modulus=1, negated=True)
"""The widths at which a block of a power of two holds lanes beyond the row."""
EVERYWHERE = Where(any_of=((),))


class Shape(NamedTuple):
    """An input's size."""

    rows: int
    columns: int

    @property
    def elements(self) -> int:
        """Rows times columns."""
        return self.rows * self.columns

    def __str__(self) -> str:
        return f"{self.rows} x {self.columns}"


RIGHT = "right"
"""The name of shapes that broke no promise, beside the kinds of findings."""
REFUSED = "refused"
"""The name of shapes that a variant turned down, where that is a limit of sizes and no finding."""


def by_kind(
    judged: Iterable[tuple[int, int]], failing: Iterable[tuple[str, Iterable[tuple[int, int]]]]
) -> dict[str, str]:
    """Writes the shapes that broke a promise by its kind, and all others as right. Kinds without shapes are left out."""
    found = {str(kind): frozenset(shapes) for kind, shapes in failing}
    right = frozenset(judged).difference(*found.values())
    return {kind: written(shapes) for kind, shapes in {**found, RIGHT: right}.items() if shapes}


def written(shapes: Iterable[tuple[int, int]]) -> str:
    """Writes shapes in order, each once: as ``2x129``, and neighbouring widths of as many rows as ``2x1-1100``."""
    runs: list[tuple[int, int, int]] = []
    for rows, columns in sorted(set(shapes)):
        if runs and runs[-1][0] == rows and runs[-1][2] == columns - 1:
            runs[-1] = (rows, runs[-1][1], columns)
        else:
            runs.append((rows, columns, columns))
    return " ".join(f"{rows}x{first}" if first == last else f"{rows}x{first}-{last}" for rows, first, last in runs)


def where_of(tried: Collection[Shape], failing: Collection[Shape], of: Measure | None = None) -> Where:
    """Returns the simplest predicate that holds for exactly the failing shapes, a non-empty part of those tried.

    The sizes ``of`` a sweep decide alone if they can. Where no plain predicate holds, these sizes fail with some shapes alone.
    """
    if of is None:
        return shapes_where(tried, failing)
    broken = {getattr(shape, of) for shape in failing}
    alone = Where(any_of=tuple((each,) for each in sizes_of([getattr(shape, of) for shape in tried], broken, of)))
    if broken.isdisjoint(getattr(shape, of) for shape in set(tried) - set(failing)):
        return alone
    both = shapes_where(tried, failing)
    return msgspec.structs.replace(alone, partly=True) if both.shapes or both.negated else both


def sizes_of(tried: Collection[int], failing: Collection[int], of: Measure = "columns") -> tuple[Sizes, ...]:
    """Returns the simplest conditions of which one holds for exactly the failing sizes among the tried ones, else a list of ranges.

    ``failing`` is a non-empty part of ``tried``. They are tried in this order: thresholds, ranges, and up to three
    single sizes; parity, powers of two and residues, alone and within a range; all sizes but a few; and two of these
    together.
    """
    sizes, wanted = sorted(set(tried)), frozenset(failing)
    assert wanted
    assert wanted <= set(sizes)
    if (single := _single(sizes, wanted, of)) is not None:
        return (single,)
    passing = tuple(n for n in sizes if n not in wanted)
    if len(passing) <= _FEW:
        return (Sizes(of=of, but=passing),)
    runs = [list(run) for fails, run in groupby(sizes, wanted.__contains__) if fails]
    return _two(sizes, wanted, of) or (Sizes(of=of, ranges=tuple((run[0], run[-1]) for run in runs)),)


def class_of(tried: Sequence[int], failing: Collection[int], of: Measure = "columns") -> Sizes | None:
    """Returns one class of sizes that holds for exactly the failing sizes among the tried ones.

    Returns None if no threshold, parity, power or residue does.
    """
    sizes, wanted = sorted(set(tried)), frozenset(failing)
    threshold = _range(sizes, min(wanted), max(wanted), of)
    classes = (Sizes(of=of), threshold, *_classes(of))
    return next((found for found in classes if frozenset(filter(found.holds, sizes)) == wanted), None)


def _single(sizes: list[int], wanted: frozenset[int], of: Measure) -> Sizes | None:
    """Describes the sizes as all, a threshold, one range, a few sizes, a class, or the part of a class in a range."""
    low, high = min(wanted), max(wanted)
    if len(wanted) == len(sizes):
        return Sizes(of=of)
    is_range = sum(low <= n <= high for n in sizes) == len(wanted)
    if is_range and (len(wanted) > 1 or (POWER_OF_TWO.holds(low - 1) and low > 2 and high == sizes[-1])):
        return _range(sizes, low, high, of)
    if len(wanted) <= _FEW:
        return Sizes(of=of, ranges=tuple((n, n) for n in sorted(wanted)))
    bounded = None
    for found in _classes(of):
        if not all(map(found.holds, wanted)):
            continue
        members = [n for n in sizes if found.holds(n)]
        if len(members) == len(wanted):
            return found
        if bounded is None and sum(low <= n <= high for n in members) == len(wanted):
            bounded = _within(found, _range(members, low, high, of))
    return bounded


def _range(sizes: list[int], low: int, high: int, of: Measure) -> Sizes:
    """A range from low to high, open at an end beyond which no size was tried."""
    if high == sizes[-1]:
        return Sizes(of=of, least=low)
    return Sizes(of=of, most=high) if low == sizes[0] else Sizes(of=of, least=low, most=high)


def _classes(of: Measure, *, with_residues: bool = True) -> Iterator[Sizes]:
    yield Sizes(of=of, modulus=2, remainder=1)
    yield Sizes(of=of, modulus=2)
    yield Sizes(of=of, modulus=1)
    yield Sizes(of=of, modulus=1, negated=True)
    for m in _MODULI:
        yield Sizes(of=of, modulus=m, negated=True)
        yield Sizes(of=of, modulus=m)
    if with_residues:
        yield from (Sizes(of=of, modulus=m, remainder=r) for m in _MODULI for r in range(1, m))


def _within(found: Sizes, limits: Sizes) -> Sizes:
    """A class in a range: ``odd N from 3 to 9``, ``N > 512 with N % 128 != 0``."""
    return msgspec.structs.replace(found, least=limits.least, most=limits.most)


def _two(sizes: list[int], wanted: frozenset[int], of: Measure) -> tuple[Sizes, ...]:
    """Describes the sizes as two sets together: the first holds failing sizes alone, the second exactly the rest."""
    for found, members in _parts(sizes, wanted, of):
        others = _single([n for n in sizes if n not in members], wanted - members, of)
        if others is not None and not others.is_everything:
            return found, others
    return ()


def _parts(sizes: list[int], wanted: frozenset[int], of: Measure) -> Iterator[tuple[Sizes, frozenset[int]]]:
    """Yields sets that hold failing sizes alone: thresholds from either end, then classes, whole or from either end.

    Single residues are left out: beside a second set they would explain anything.
    """
    for found in (Sizes(of=of), *_classes(of, with_residues=False)):
        members = [n for n in sizes if found.holds(n)]
        if members and wanted.issuperset(members):
            yield found, frozenset(members)
            continue
        for run in (members, members[::-1]):
            part = sorted(takewhile(wanted.__contains__, run))
            if part:
                yield _within(found, _range(members, part[0], part[-1], of)), frozenset(part)


def shapes_where(tried: Collection[Shape], failing: Collection[Shape]) -> Where:
    """Returns the simplest predicate that holds for exactly the failing shapes, or the smallest of these.

    ``failing`` is a non-empty part of ``tried``. A condition on columns, rows or elements alone comes first, then a
    limit of one measure together with a condition on another, such as "rows >= 8192 and columns > 256". Last comes what
    holds for exactly the other shapes, as in "not (rows >= 32 and columns <= 64)".
    """
    if len(failing) == len(tried):
        return EVERYWHERE
    negated = (msgspec.structs.replace(found, negated=True) for found in _together(tried, set(tried) - set(failing)))
    if set(failing) == {shape for shape in tried if shape.rows == shape.columns}:
        return Where(squares=True)
    for found in chain(_alone(tried, failing), _together(tried, failing), negated):
        is_equal = any(_is_equal(each) for group in found.any_of for each in group)
        if len(found.words()) <= _LONGEST and len(failing) >= (_FEWEST_EQUAL if is_equal else _FEWEST):
            return found
    shown = sorted(failing, key=lambda shape: shape.elements)[:_SHOWN]
    return Where(shapes=tuple((s.rows, s.columns) for s in shown), more=len(failing) - len(shown))


def _is_equal(condition: Sizes) -> bool:
    return condition.is_listed or (condition.least is not None and condition.least == condition.most)


def _alone(tried: Collection[Shape], failing: Collection[Shape]) -> Iterator[Where]:
    measures: tuple[Measure, ...] = ("columns", "rows", "elements")
    for of in measures:
        broken = {getattr(shape, of) for shape in failing}
        if all(shape in failing for shape in tried if getattr(shape, of) in broken):
            found = sizes_of([getattr(shape, of) for shape in tried], broken, of)
            # Where no rule holds, shapes say more than ranges of one measure, or than single numbers of elements.
            is_listed = any(each.ranges and not each.is_listed for each in found)
            is_limit = len(found) == 1 and found[0].is_interval and None in (found[0].least, found[0].most)
            if not is_listed and (of != "elements" or is_limit):
                yield Where(any_of=tuple((each,) for each in found))


def _together(tried: Collection[Shape], failing: Collection[Shape]) -> Iterator[Where]:
    measures: tuple[Measure, ...] = ("rows", "columns", "elements")
    for of in measures:
        sizes = [getattr(shape, of) for shape in failing]
        low, high = min(sizes), max(sizes)
        limits = [Sizes(of=of, least=low), Sizes(of=of, most=high)]
        for limit in ([Sizes(of=of, least=low, most=high)] if low == high else []) + limits:
            within = [shape for shape in tried if limit.holds(getattr(shape, of))]
            if len(within) == len(tried):
                continue
            if len(within) == len(failing):
                yield Where(any_of=((limit,),))
            for others in _alone(within, failing):
                other = others.only
                if other is not None and other.of != of and not other.is_everything:
                    yield Where(any_of=((limit, other),))
