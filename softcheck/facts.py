"""What a finding knows, as fields: numbers of its witness, sizes as a predicate, and the circumstances of the call.

Words are made from these; nothing reads them back out of words. Imports nothing of softcheck.
"""

from collections.abc import Collection
from typing import Literal

import msgspec

Measure = Literal["columns", "rows", "elements"]

_SHOWN_RANGES = 8


class Sizes(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One condition on a measure of a shape. All that is set holds; a condition without any holds for every size."""

    of: Measure = "columns"
    least: int | None = None
    most: int | None = None
    modulus: int | None = None
    """The sizes whose rest modulo this is ``remainder``; 1 stands for powers of two."""
    remainder: int = 0
    negated: bool = False
    """True for the sizes that leave another rest, or are no power of two."""
    ranges: tuple[tuple[int, int], ...] = ()
    """First and last sizes of each range of tried sizes, where no class of sizes holds; single sizes where there are few."""
    but: tuple[int, ...] = ()
    """The sizes that were right, where all others were wrong."""

    def holds(self, size: int) -> bool:
        """True if the condition holds for a size of this measure."""
        return (
            (self.least is None or size >= self.least)
            and (self.most is None or size <= self.most)
            and (self.modulus is None or self._is_in_class(size) is not self.negated)
            and (not self.ranges or any(first <= size <= last for first, last in self.ranges))
            and size not in self.but
        )

    def _is_in_class(self, size: int) -> bool:
        assert self.modulus is not None
        return size & (size - 1) == 0 if self.modulus == 1 else size % self.modulus == self.remainder

    @property
    def is_everything(self) -> bool:
        """True for all sizes but a few."""
        return self == Sizes(of=self.of, but=self.but)

    @property
    def is_interval(self) -> bool:
        """True for a range without a class."""
        return self == Sizes(of=self.of, least=self.least, most=self.most) and not self.is_everything

    @property
    def is_listed(self) -> bool:
        """True for single sizes."""
        return bool(self.ranges) and len(self.ranges) <= _FEW and all(first == last for first, last in self.ranges)

    def words(self, symbol: str) -> str:
        """``odd N from 3 to 9``, ``N > 512 with N % 128 != 0``, ``N = 3, 5``: the condition with ``symbol`` for a size."""
        if self.is_everything:
            return f"all {symbol} tried" + (f" but {_commas(self.but)}" if self.but else "")
        if self.is_listed:
            return f"{symbol} = {_commas([first for first, _ in self.ranges])}"
        if self.ranges:
            shown = (str(a) if a == b else f"{a}-{b}" for a, b in self.ranges[:_SHOWN_RANGES])
            more = len(self.ranges) - _SHOWN_RANGES
            return f"{symbol} in {', '.join(shown)}" + (f" and {more} more ranges" if more > 0 else "")
        limits, kind = self._limits(symbol), self._class(symbol)
        if not limits or not kind:
            return limits or kind
        return f"{limits} with {kind}" if kind.startswith(symbol) else f"{kind}{limits.removeprefix(symbol)}"

    def _class(self, symbol: str) -> str:
        match self.modulus:
            case None:
                return ""
            case 1:
                return f"{symbol} {'not ' if self.negated else ''}a power of two"
            case 2 if not self.negated:
                return f"{'odd' if self.remainder else 'even'} {symbol}"
            case modulus:
                return f"{symbol} % {modulus} {'!=' if self.negated else '=='} {self.remainder}"

    def _limits(self, symbol: str) -> str:
        low, high = self.least, self.most
        if low is not None and high is not None:
            return f"{symbol} from {low} to {high}" if low < high else f"{symbol} = {low}"
        if low is not None:
            # Of two possible bounds, the rounder one.
            return f"{symbol} > {low - 1}" if _roundness(low - 1) > _roundness(low) else f"{symbol} >= {low}"
        if high is not None:
            return f"{symbol} < {high + 1}" if _roundness(high + 1) > _roundness(high) else f"{symbol} <= {high}"
        return ""


_FEW = 3
"""Number of sizes up to which sizes are listed rather than described: a pattern in so few points is chance."""


class Where(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Shapes, as a predicate that holds for exactly the failing ones among those that were tried."""

    any_of: tuple[tuple[Sizes, ...], ...] = ()
    """Conditions that hold together, of which one group holds; an empty group stands for all shapes."""
    negated: bool = False
    """True if the groups tell the shapes that were right."""
    squares: bool = False
    """True for the shapes with as many rows as columns, and nothing else."""
    shapes: tuple[tuple[int, int], ...] = ()
    """The smallest failing shapes, where no predicate holds."""
    more: int = 0
    """Number of the others."""
    partly: bool = False
    """True if some of the failing calls at these sizes were right in another number of rows."""

    @property
    def one(self) -> Sizes | None:
        """The condition, if it is one on one measure; else None."""
        is_one = len(self.any_of) == 1 and len(self.any_of[0]) == 1 and not self.negated
        return self.any_of[0][0] if is_one else None

    @property
    def only(self) -> Sizes | None:
        """The condition, if it is ``one`` that holds for all calls at these sizes; else None."""
        return None if self.partly else self.one

    @property
    def is_chance(self) -> bool:
        """True for what stands where no class of sizes is wrong: lists, ranges and two classes together."""
        parts = [each for group in self.any_of for each in group]
        return len(self.any_of) > 1 or bool(self.shapes) or any(each.ranges and not each.is_listed for each in parts)

    def words(self, symbol: str = "columns") -> str:
        """The predicate in words, with a symbol for the number of columns where it tells of nothing else."""
        if self.squares:
            return "rows = columns"
        if self.shapes:
            shown = ", ".join(f"{rows} x {width}" for rows, width in self.shapes)
            return f"shapes of no one class, such as {shown}" if self.more else f"rows x columns = {shown}"
        if any(each.of != "columns" for group in self.any_of for each in group):
            symbol = "columns"
        groups = [
            " and ".join(each.words(symbol if each.of == "columns" else each.of) for each in g) for g in self.any_of
        ]
        said = " or ".join(group or "all shapes tried" for group in groups)
        return (f"not ({said})" if self.negated else said) + (" with some row counts" if self.partly else "")


class Sweep(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The sizes among which a predicate was found."""

    failing: int
    tried: int
    of: str = "shapes"
    """The word for several sizes."""
    first: int | None = None
    last: int | None = None
    """The smallest and the largest size that was tried; null for shapes."""
    wrong: tuple[int, ...] = ()
    """The smallest failing sizes and the largest one."""
    right: int | None = None
    """The largest right size below the first failing one."""

    @classmethod
    def among(cls, tried: Collection[int], failing: Collection[int], of: str) -> "Sweep":
        """The extent of failing sizes, at least one, among those that were tried; ``of`` is the word for several sizes."""
        wrong, shown = sorted(failing), 4
        return cls(
            failing=len(wrong),
            tried=len(tried),
            of=of,
            first=min(tried),
            last=max(tried),
            wrong=tuple(dict.fromkeys((*wrong[:shown], wrong[-1]))),
            right=max((n for n in tried if n < wrong[0]), default=None),
        )

    def words(self) -> str:
        """``7 of 19 widths tried, 1 to 2049``."""
        extent = "" if self.first is None else f", {self.first} to {self.last}"
        return f"{self.failing} of {self.tried} {self.of} tried{extent}"


Reason = Literal["nan", "inf", "hidden_row", "hidden", "finite"]
"""What decides over a special value: a NaN, a +inf or nothing but -inf in the row, a logit of -inf, or a finite answer."""


class Facts(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Numbers and circumstances of a finding; null where they are not known."""

    output: float | None = None
    expected: float | None = None
    """The exact answer, rounded to float64."""
    ulps: float | None = None
    bound: float | None = None
    """The witness's error and the largest that is allowed, in ULPs."""
    sum_off: float | None = None
    """The outputs' sum less 1."""
    sum_allowed: float | None = None
    reason: Reason | None = None
    query: int | None = None
    """The query, where a row's answer has several."""
    where: Where | None = None
    """The failing sizes among those that a probe tried."""
    sweep: Sweep | None = None
    way: dict[str, str] = {}
    """The call's circumstances by axis, such as ``layout``, ``operand``, ``option`` and ``mode``, where they are not plain."""

    @property
    def over_bound(self) -> float | None:
        """The witness's error over its bound, or a sum's deviation over what is allowed."""
        for found, allowed in ((self.ulps, self.bound), (self.sum_off, self.sum_allowed)):
            if found is not None and allowed:
                return abs(found) / allowed
        return None

    def beside(self, **way: str) -> "Facts":
        """The facts of a call in further circumstances."""
        return msgspec.structs.replace(self, way={**self.way, **way})


def _commas(numbers: "tuple[int, ...] | list[int]") -> str:
    return ", ".join(map(str, numbers))


def _roundness(n: int) -> tuple[bool, int]:
    """Sort key: powers of two first, then by the power of two that divides the number; 0 is the least round."""
    return (n > 1 and n & (n - 1) == 0, n & -n)
