"""The sizes that fail among those tried, as a predicate: "odd N from 513 to 1023" instead of a list. Imports no torch.

The predicate summarises the tried sizes and proves nothing about other sizes: among the tried sizes it holds for exactly the
failing ones.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby, takewhile

from softcheck.facts import Measure, Sizes

_MODULI = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 3, 5, 6, 7, 9, 10, 12, 24, 48, 96, 100, 192, 384)
"""Powers of two first, since vectors, warps, tiles and pages are powers of two."""
_FEW = 3
"""Number of sizes up to which sizes are listed rather than described: a pattern in so few points is chance."""

POWER_OF_TWO = Sizes(modulus=1)
PADDED = Sizes(modulus=1, negated=True)
"""The widths at which a block of a power of two holds lanes beyond the row."""


def sizes_of(tried: Sequence[int], failing: Collection[int], of: Measure = "columns") -> tuple[Sizes, ...]:
    """Returns the simplest conditions of which one holds for exactly the failing sizes among the tried ones, else a list of ranges.

    ``failing`` is a non-empty part of ``tried``. They are tried in this order: thresholds, ranges, and up to three
    single sizes; parity, powers of two and residues, alone and within a range; all sizes but a few; and two of these
    together.
    """
    sizes, wanted = sorted(set(tried)), frozenset(failing)
    assert wanted
    assert wanted <= set(sizes)
    passing = tuple(n for n in sizes if n not in wanted)
    if (single := _single(sizes, wanted, of)) is not None:
        return (single,)
    if len(passing) <= _FEW:
        return (Sizes(of=of, but=passing),)
    return _two(sizes, wanted, of) or (Sizes(of=of, ranges=_ranges(sizes, wanted)),)


def class_of(tried: Sequence[int], failing: Collection[int], of: Measure = "columns") -> Sizes | None:
    """Returns one class of sizes that holds for exactly the failing sizes among the tried ones.

    Returns None if no threshold, parity, power or residue does.
    """
    sizes, wanted = sorted(set(tried)), frozenset(failing)
    threshold = _range(sizes, min(wanted), max(wanted), of)
    for found in (Sizes(of=of), threshold, *_classes(of)):
        if frozenset(filter(found.holds, sizes)) == wanted:
            return found
    return None


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
    for m in _MODULI if with_residues else ():
        for r in range(1, m):
            yield Sizes(of=of, modulus=m, remainder=r)


def _within(found: Sizes, limits: Sizes) -> Sizes:
    """A class in a range: ``odd N from 3 to 9``, ``N > 512 with N % 128 != 0``."""
    return Sizes(
        of=found.of,
        least=limits.least,
        most=limits.most,
        modulus=found.modulus,
        remainder=found.remainder,
        negated=found.negated,
    )


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


def _ranges(sizes: list[int], wanted: frozenset[int]) -> tuple[tuple[int, int], ...]:
    """Ranges of neighbours among the tried sizes."""
    runs = [list(run) for fails, run in groupby(sizes, wanted.__contains__) if fails]
    return tuple((run[0], run[-1]) for run in runs)
