"""Says in words which of the sizes that were tried fail: "odd N from 513 to 1023" instead of a list. Imports no torch.

The predicate is a summary of what was tried, not a proof about sizes that were not: it holds for exactly the failing ones
among those tried.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_MODULI = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 3, 5, 6, 7, 9, 10, 12, 24, 48, 96, 100, 192, 384)
"""Powers of two first: vectors, warps, tiles and pages are."""
_FEW = 3
"""Up to so many sizes are listed rather than described: a pattern in fewer points is chance."""
_SHOWN_RANGES = 8

Test = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A set of sizes: words that name it, and the test itself."""

    text: str
    holds: Test


@dataclass(frozen=True, slots=True)
class _Class:
    """A class of sizes: how it stands before a range ("odd N from 3 to 9"), and which sizes it holds."""

    text: str
    holds: Test
    after: bool = False
    """Whether the words come after the range ("N > 512 with N % 128 != 0")."""


def describe(tried: Sequence[int], failing: Collection[int], symbol: str = "N") -> Predicate:
    """The simplest predicate that holds for exactly the failing sizes among those tried, or else a list of ranges.

    ``failing`` is a part of ``tried`` and not empty. Tried in this order: thresholds, ranges, up to three single sizes,
    parity, residues and powers of two, these within a range, all but a few, and two of these together.
    """
    sizes, chosen = sorted(set(tried)), sorted(set(failing))
    assert chosen
    assert set(chosen) <= set(sizes)
    wanted = frozenset(chosen)
    return (
        _plain(sizes, chosen, symbol)
        or (_listed(chosen, symbol) if len(chosen) <= _FEW else None)
        or _classed(sizes, wanted, symbol)
        or _all_but(sizes, wanted, symbol)
        or _two(sizes, wanted, symbol)
        or _ranges(sizes, wanted, symbol)
    )


def _plain(sizes: list[int], chosen: list[int], symbol: str) -> Predicate | None:
    """All, a threshold, or one range."""
    low, high = chosen[0], chosen[-1]
    if [n for n in sizes if low <= n <= high] != chosen:
        return None
    if chosen == sizes:
        return Predicate(f"all {symbol} tried", lambda _: True)
    if len(chosen) == 1 and not (_is_power(low - 1) and high == sizes[-1]):
        return _listed(chosen, symbol)
    return _ranged(sizes, low, high, symbol)


def _ranged(sizes: list[int], low: int, high: int, symbol: str) -> Predicate:
    """A range from low to high, open where nothing that was tried lies beyond."""
    if high == sizes[-1]:
        return Predicate(_above(low, symbol), lambda n: n >= low)
    if low == sizes[0]:
        return Predicate(_below(high, symbol), lambda n: n <= high)
    return Predicate(f"{symbol} from {low} to {high}", lambda n: low <= n <= high)


def _above(low: int, symbol: str) -> str:
    """The lower bound by the rounder number of two that say the same."""
    return f"{symbol} > {low - 1}" if _roundness(low - 1) > _roundness(low) else f"{symbol} >= {low}"


def _below(high: int, symbol: str) -> str:
    return f"{symbol} < {high + 1}" if _roundness(high + 1) > _roundness(high) else f"{symbol} <= {high}"


def _roundness(n: int) -> tuple[bool, int]:
    """Powers of two first, then by the power of two that divides the number; 0 is the least round."""
    return (_is_power(n), n & -n)


def _is_power(n: int) -> bool:
    return n > 1 and n & (n - 1) == 0


def _listed(chosen: list[int], symbol: str) -> Predicate:
    members = frozenset(chosen)
    return Predicate(f"{symbol} = {', '.join(map(str, chosen))}", lambda n: n in members)


def _classes(symbol: str) -> Iterator[_Class]:
    yield _Class(f"odd {symbol}", lambda n: n % 2 == 1)
    yield _Class(f"even {symbol}", lambda n: n % 2 == 0)
    yield _Class(f"{symbol} a power of two", lambda n: n & (n - 1) == 0, after=True)
    yield _Class(f"{symbol} not a power of two", lambda n: n & (n - 1) != 0, after=True)
    for m in _MODULI[1:]:
        yield _Class(f"{symbol} % {m} != 0", lambda n, m=m: n % m != 0, after=True)  # type: ignore[misc]
        yield _Class(f"{symbol} % {m} == 0", lambda n, m=m: n % m == 0, after=True)  # type: ignore[misc]
    for m in _MODULI[1:]:
        for r in range(1, m):
            yield _Class(f"{symbol} % {m} == {r}", lambda n, m=m, r=r: n % m == r, after=True)  # type: ignore[misc]


def _classed(sizes: list[int], wanted: frozenset[int], symbol: str) -> Predicate | None:
    """A class on its own, or the part of a class that lies in a range."""
    low, high = min(wanted), max(wanted)
    bounded: Predicate | None = None
    for found in _classes(symbol):
        if not all(map(found.holds, wanted)):
            continue
        members = [n for n in sizes if found.holds(n)]
        if len(members) == len(wanted):
            return Predicate(found.text, found.holds)
        if bounded is None and sum(low <= n <= high for n in members) == len(wanted):
            bounded = _within(found, _ranged(members, low, high, symbol), symbol)
    return bounded


def _within(found: _Class, limits: Predicate, symbol: str) -> Predicate:
    text = f"{limits.text} with {found.text}" if found.after else f"{found.text}{limits.text.removeprefix(symbol)}"
    return Predicate(text, lambda n: found.holds(n) and limits.holds(n))


def _all_but(sizes: list[int], wanted: frozenset[int], symbol: str) -> Predicate | None:
    passing = [n for n in sizes if n not in wanted]
    if len(passing) > _FEW:
        return None
    return Predicate(f"all {symbol} tried but {', '.join(map(str, passing))}", lambda n: n not in passing)


def _two(sizes: list[int], wanted: frozenset[int], symbol: str) -> Predicate | None:
    """Two predicates together: the first holds for failing sizes alone, the second for exactly those that it leaves."""
    for first in _parts(sizes, wanted, symbol):
        open_sizes = [n for n in sizes if not first.holds(n)]
        left = frozenset(n for n in wanted if not first.holds(n))
        if len(left) == len(wanted):
            continue
        chosen = sorted(left)
        second = _plain(open_sizes, chosen, symbol)
        if second is None and len(chosen) <= _FEW:
            second = _listed(chosen, symbol)
        if second is None:
            second = _classed(open_sizes, left, symbol)
        if second is not None and not second.text.startswith("all "):
            return Predicate(f"{first.text} or {second.text}", lambda n, p=first, q=second: p.holds(n) or q.holds(n))  # type: ignore[misc]
    return None


def _parts(sizes: list[int], wanted: frozenset[int], symbol: str) -> Iterator[Predicate]:
    """Predicates that hold for failing sizes alone: thresholds from either end, then classes, whole or from either end."""
    for found in (_Class(symbol, lambda _: True), *_some_classes(symbol)):
        members = [n for n in sizes if found.holds(n)]
        if members and all(n in wanted for n in members):
            yield Predicate(found.text, found.holds)
            continue
        for run in (_leading(members, wanted), _leading(members[::-1], wanted)[::-1]):
            if run:
                limits = _ranged(members, run[0], run[-1], symbol)
                yield limits if found.text == symbol else _within(found, limits, symbol)


def _some_classes(symbol: str) -> Iterator[_Class]:
    """Those that a second predicate may stand beside; single residues would explain anything."""
    return (c for c in _classes(symbol) if "%" not in c.text or c.text.endswith("= 0"))


def _leading(members: list[int], wanted: frozenset[int]) -> list[int]:
    run: list[int] = []
    for n in members:
        if n not in wanted:
            break
        run.append(n)
    return run


def _ranges(sizes: list[int], wanted: frozenset[int], symbol: str) -> Predicate:
    """Neighbours among the tried sizes run together; the end of a long list is counted, not shown."""
    runs: list[list[int]] = [[min(wanted)]]
    for before, n in pairwise(sizes):
        if n in wanted and n > runs[0][0]:
            if before in wanted:
                runs[-1].append(n)
            else:
                runs.append([n])
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs[:_SHOWN_RANGES]]
    more = f" and {len(runs) - _SHOWN_RANGES} more ranges" if len(runs) > _SHOWN_RANGES else ""
    return Predicate(f"{symbol} in {', '.join(shown)}{more}", lambda n: n in wanted)
