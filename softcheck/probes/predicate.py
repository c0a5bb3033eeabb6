"""Words for the sizes that fail among those tried: "odd N from 513 to 1023" instead of a list. Imports no torch.

The words summarise the tried sizes and prove nothing about other sizes: among the tried sizes they hold for exactly the
failing ones.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby, takewhile

_MODULI = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 3, 5, 6, 7, 9, 10, 12, 24, 48, 96, 100, 192, 384)
"""Powers of two first, since vectors, warps, tiles and pages are powers of two."""
_FEW = 3
"""Number of sizes up to which sizes are listed rather than described: a pattern in so few points is chance."""
_SHOWN_RANGES = 8

Class = tuple[str, Callable[[int], bool]]
"""The words for a class of sizes, and a function that is True for the sizes in it."""


def describe(tried: Sequence[int], failing: Collection[int], symbol: str = "N") -> str:
    """Returns the simplest words that hold for exactly the failing sizes among the tried ones, else a list of ranges.

    ``failing`` is a non-empty part of ``tried``. The words are tried in this order: thresholds, ranges, and up to three
    single sizes; parity, powers of two and residues, alone and within a range; all sizes but a few; and two of these
    together.
    """
    sizes, wanted = sorted(set(tried)), frozenset(failing)
    assert wanted
    assert wanted <= set(sizes)
    passing = [n for n in sizes if n not in wanted]
    return (
        _single(sizes, wanted, symbol)
        or (f"all {symbol} tried but {_commas(passing)}" if len(passing) <= _FEW else None)
        or _two(sizes, wanted, symbol)
        or _ranges(sizes, wanted, symbol)
    )


def class_of(tried: Sequence[int], failing: Collection[int], symbol: str = "N") -> Class | None:
    """Returns one class of sizes, in words and as a function, that holds for exactly the failing sizes among the tried ones.

    Returns None if no threshold, parity, power or residue does.
    """
    sizes, wanted = sorted(set(tried)), frozenset(failing)
    low, high = min(wanted), max(wanted)
    everything: Class = (f"all {symbol} tried", lambda _: True)
    threshold: Class = (_range(sizes, low, high, symbol), lambda n: low <= n and (n <= high or high == sizes[-1]))
    for words, holds in (everything, threshold, *_classes(symbol)):
        if frozenset(filter(holds, sizes)) == wanted:
            return words, holds
    return None


def sizes_named(words: str, symbol: str = "N") -> Callable[[int], bool] | None:
    """Returns the function for the words of one class of sizes, as ``describe`` gives them; None for other words."""
    for name, holds in _classes(symbol):
        if name == words:
            return holds
    found = re.fullmatch(rf"{symbol} (>=?|<=?) (\d+)", words)
    if found is None:
        return None
    compare = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}[found[1]]
    return lambda n: bool(compare(n, int(found[2])))


def _single(sizes: list[int], wanted: frozenset[int], symbol: str) -> str | None:
    """Describes the sizes as all, a threshold, one range, a few sizes, a class, or the part of a class in a range."""
    low, high = min(wanted), max(wanted)
    if len(wanted) == len(sizes):
        return f"all {symbol} tried"
    is_range = sum(low <= n <= high for n in sizes) == len(wanted)
    if is_range and (len(wanted) > 1 or (_is_power(low - 1) and high == sizes[-1])):
        return _range(sizes, low, high, symbol)
    if len(wanted) <= _FEW:
        return f"{symbol} = {_commas(sorted(wanted))}"
    bounded = None
    for words, holds in _classes(symbol):
        if not all(map(holds, wanted)):
            continue
        members = [n for n in sizes if holds(n)]
        if len(members) == len(wanted):
            return words
        if bounded is None and sum(low <= n <= high for n in members) == len(wanted):
            bounded = _within(words, _range(members, low, high, symbol), symbol)
    return bounded


def _commas(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def _range(sizes: list[int], low: int, high: int, symbol: str) -> str:
    """A range from low to high, open at an end beyond which no size was tried.

    Of two possible bounds, the rounder one.
    """
    if high == sizes[-1]:
        return f"{symbol} > {low - 1}" if _roundness(low - 1) > _roundness(low) else f"{symbol} >= {low}"
    if low == sizes[0]:
        return f"{symbol} < {high + 1}" if _roundness(high + 1) > _roundness(high) else f"{symbol} <= {high}"
    return f"{symbol} from {low} to {high}"


def _roundness(n: int) -> tuple[bool, int]:
    """Sort key: powers of two first, then by the power of two that divides the number; 0 is the least round."""
    return (_is_power(n), n & -n)


def _is_power(n: int) -> bool:
    return n > 1 and n & (n - 1) == 0


def _classes(symbol: str, *, with_residues: bool = True) -> Iterator[Class]:
    yield f"odd {symbol}", lambda n: n % 2 == 1
    yield f"even {symbol}", lambda n: n % 2 == 0
    yield f"{symbol} a power of two", lambda n: n & (n - 1) == 0
    yield f"{symbol} not a power of two", lambda n: n & (n - 1) != 0
    for m in _MODULI:
        yield f"{symbol} % {m} != 0", lambda n, m=m: n % m != 0  # type: ignore[misc]
        yield f"{symbol} % {m} == 0", lambda n, m=m: n % m == 0  # type: ignore[misc]
    for m in _MODULI if with_residues else ():
        for r in range(1, m):
            yield f"{symbol} % {m} == {r}", lambda n, m=m, r=r: n % m == r  # type: ignore[misc]


def _within(words: str, limits: str, symbol: str) -> str:
    """A class in a range: ``odd N from 3 to 9``, ``N > 512 with N % 128 != 0``."""
    return f"{limits} with {words}" if words.startswith(symbol) else f"{words}{limits.removeprefix(symbol)}"


def _two(sizes: list[int], wanted: frozenset[int], symbol: str) -> str | None:
    """Describes the sizes as two sets together: the first holds failing sizes alone, the second exactly the rest."""
    for words, members in _parts(sizes, wanted, symbol):
        others = _single([n for n in sizes if n not in members], wanted - members, symbol)
        if others is not None and not others.startswith("all "):
            return f"{words} or {others}"
    return None


def _parts(sizes: list[int], wanted: frozenset[int], symbol: str) -> Iterator[tuple[str, frozenset[int]]]:
    """Yields sets that hold failing sizes alone: thresholds from either end, then classes, whole or from either end.

    Single residues are left out: beside a second set they would explain anything.
    """
    everything: Class = (symbol, lambda _: True)
    for words, holds in (everything, *_classes(symbol, with_residues=False)):
        members = [n for n in sizes if holds(n)]
        if members and wanted.issuperset(members):
            yield words, frozenset(members)
            continue
        for run in (members, members[::-1]):
            found = sorted(takewhile(wanted.__contains__, run))
            if found:
                limits = _range(members, found[0], found[-1], symbol)
                yield limits if words == symbol else _within(words, limits, symbol), frozenset(found)


def _ranges(sizes: list[int], wanted: frozenset[int], symbol: str) -> str:
    """Lists ranges of neighbours among the tried sizes; the end of a long list is counted, not shown."""
    runs = [list(run) for fails, run in groupby(sizes, wanted.__contains__) if fails]
    shown = (str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs[:_SHOWN_RANGES])
    more = f" and {len(runs) - _SHOWN_RANGES} more ranges" if len(runs) > _SHOWN_RANGES else ""
    return f"{symbol} in {', '.join(shown)}{more}"
