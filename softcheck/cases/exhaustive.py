"""Inputs that are everything there is: every row of one or two columns in a 16-bit format, and slices of larger sets.

A domain numbers its rows, so that any part of it can be made on its own, on the host or on a device.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec
import numpy as np

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FORMATS, Bits, Format
from softcheck.errors import UsageError

Kind = Literal["rows", "spread", "ascending", "lattice", "differences"]

_SPREAD = 16
"""One in so many pairs is in the set of spread ones."""


class Domain(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A numbered set of rows of one format.

    ``rows``: every row of ``columns`` bit patterns; row i holds the base-2^width digits of i, the first column the
    highest. ``spread``: one in 16 of the pairs among them; ``spread_numbers`` numbers them. ``ascending``: the rows among them whose patterns do not fall from column to column, so that each row stands for all
    orders of its elements; ``ascending_patterns`` numbers them. ``lattice``: the same as ``rows`` over the patterns that ``lattice_patterns`` picks. ``differences``: rows (0, -d) and
    (d, 0) in turn for every d >= 0, infinity included, in the order of their bits.
    """

    kind: Kind
    dtype: str
    columns: int
    total: int
    """Rows of the whole set."""
    first: int
    """Number of rows to judge, from the beginning; ``total`` for all."""

    @property
    def format(self) -> Format:
        """The format of the elements."""
        return FORMATS[self.dtype]

    @property
    def is_complete(self) -> bool:
        """True if every row of this many columns that the format has is judged."""
        return self.kind == "rows" and self.first == self.total

    def bits(self, start: int, count: int) -> Bits:
        """Bit patterns of rows ``start`` to ``start + count``, shape [count, columns]."""
        index = np.arange(start, start + count, dtype=np.int64)
        if self.kind == "lattice":
            own = lattice_patterns(self.format)
            digits = [index // len(own) ** place % len(own) for place in reversed(range(self.columns))]
            chosen: Bits = own[np.stack(digits, axis=1)]
            return chosen
        columns = list(self.patterns(index, lambda numbers: numbers.astype(np.int64)))
        return np.stack(columns, axis=1).astype(self.format.storage)

    def patterns(self, index: Any, to_integers: Callable[[Any], Any]) -> Iterator[Any]:
        """Yields the patterns of rows by their numbers, column by column, of any domain but a lattice.

        ``index`` is an array or a tensor of 64-bit integers, and ``to_integers`` as in ``ascending_patterns``. The patterns are the
        low bits of what is yielded: others are lost where it is cut to the format's width.
        """
        width = self.format.width
        if self.kind == "differences":
            yield (index >> 1) * (index & 1)
            yield ((index >> 1) | (1 << (width - 1))) * (1 - (index & 1))
        elif self.kind == "ascending":
            yield from ascending_patterns(index, self.columns, to_integers)
        else:
            index = spread_numbers(index, self.format) if self.kind == "spread" else index
            yield from (index >> (width * place) for place in reversed(range(self.columns)))

    def describe(self) -> str:
        """The set in a few words."""
        columns, dtype = self.columns, self.dtype
        chosen = len(lattice_patterns(self.format)) if self.kind == "lattice" else 0
        what = {
            "rows": f"every row of {columns} {dtype} patterns",
            "spread": f"one in {_SPREAD} rows of {columns} {dtype} patterns",
            "ascending": f"every row of {columns} ascending {dtype} patterns",
            "differences": f"rows (0, -d) and (d, 0) for every {dtype} d >= 0",
            "lattice": f"rows of {columns} among {chosen} of the {2**self.format.width} {dtype} patterns",
        }[self.kind]
        return what if self.first == self.total else f"{what}, the first {self.first:,} of {self.total:,}"


def domain(dtype: str, columns: int, kind: Kind = "rows", first: int | None = None) -> Domain:
    """The domain that a request names; raises UsageError where a format has too many patterns, or for other differences than float32's."""
    fmt = FORMATS[dtype]
    if kind == "differences" and (fmt != FLOAT32 or columns != 2):
        raise UsageError(f"--differences is for float32 with --columns 2, got {dtype} with --columns {columns}")
    if kind != "differences" and fmt not in (FLOAT16, BFLOAT16):
        raise UsageError(f"{dtype} has too many patterns; expected float16 or bfloat16, or float32 with --differences")
    if kind == "spread" and columns != 2:
        raise UsageError(f"pairs can be spread, rows of {columns} columns can't")
    if first is not None and first < 1:
        raise UsageError(f"--sample-first {first}: expected at least 1 row")
    total = 2 ** (fmt.width * columns)
    if kind == "differences":
        total = 2 * (fmt.exponent_mask + 1)
    elif kind == "lattice":
        total = len(lattice_patterns(fmt)) ** columns
    elif kind == "spread":
        total //= _SPREAD
    elif kind == "ascending":
        total = math.comb(2**fmt.width + columns - 1, columns)
    return Domain(kind=kind, dtype=dtype, columns=columns, total=total, first=min(total, first or total))


def spread_numbers(index: Any, fmt: Format) -> Any:
    """The numbers, among all pairs of a format's patterns, of spread ones: an array or a tensor of 64-bit integers.

    Each pattern meets one in 16 of the others as the first and as the second logit, and equal patterns of both signs of 0 and infinity meet.
    """
    first = index >> (fmt.width - 4)
    return _SPREAD * index + (7 * first) % _SPREAD


def lattice_patterns(fmt: Format) -> Bits:
    """Patterns at the edges of every third binade, and specials: for machines without a GPU, on which all pairs would take weeks."""
    low = (1 << (fmt.precision - 1)) - 1
    exponents = range(0, fmt.exponent_mask + 1, 3 << (fmt.precision - 1))
    step = _LATTICE_STEP[fmt.name]
    magnitudes = {e | m for e in list(exponents)[::step] for m in (0, 1, low)}
    magnitudes |= {fmt.exponent_mask, fmt.exponent_mask - 1, fmt.exponent_mask | (1 << (fmt.precision - 2))}
    sign = 1 << (fmt.width - 1)
    return np.array(sorted({m | s for m in magnitudes for s in (0, sign)}), dtype=fmt.storage)


def ascending_patterns(index: Any, columns: int, to_integers: Callable[[Any], Any]) -> list[Any]:
    """The patterns of ascending rows by their numbers, one array of numbers for each of at most three columns.

    ``index`` is an array of numpy or a tensor of torch, of 64-bit integers below 2^53, and ``to_integers`` cuts its floats to them.
    The rows p <= q <= r stand in the combinatorial number system: row number C(r + 2, 3) + C(q + 1, 2) + p. Each digit is the
    largest whose binomial coefficient is at most the rest: found by a root in float64, and fixed by integers.
    """
    found = []
    rest = index
    for size in range(columns, 1, -1):
        factor = math.factorial(size)
        digit = to_integers((factor * rest + 0.0) ** (1.0 / size))
        # The root is off by less than one for size 2 and 3, and rounding by less than one more.
        for step in (1, 1, 1):
            digit = digit + step * (_coefficient(digit + step, size) <= rest)
        for _ in range(3):
            digit = digit - 1 * (_coefficient(digit, size) > rest)
        rest = rest - _coefficient(digit, size)
        found.append(digit - (size - 1))
    return [rest, *reversed(found)]


def _coefficient(numbers: Any, size: int) -> Any:
    """C(n, size) of integers."""
    product = numbers
    for k in range(1, size):
        product = product * (numbers - k)
    return product // math.factorial(size)


_LATTICE_STEP = {"float16": 1, "bfloat16": 8}


def telling_rows(judged: Domain, most: int = 384) -> list[int]:
    """Numbers of up to ``most`` rows that show first what is wrong, always the same: edge patterns, all exponents, and random ones."""
    fmt = judged.format
    step = 1 << (fmt.precision - 1)
    exponents = np.arange(0, fmt.exponent_mask + 1, step, dtype=np.int64)
    generator = np.random.default_rng(0)
    edges = [0, 1, step - 1, step, fmt.exponent_mask - 1, fmt.exponent_mask, fmt.exponent_mask + step // 2]
    some = exponents[:: max(1, 2 * len(exponents) // (most // 2))]
    binades = [int(e) for e in some + generator.integers(0, step, len(some))]
    if judged.kind == "differences":
        numbers = [2 * magnitude + which for magnitude in (*edges, *binades) for which in (0, 1)]
    else:
        sign = 1 << (fmt.width - 1)
        own = {int(p): i for i, p in enumerate(lattice_patterns(fmt))} if judged.kind == "lattice" else None
        patterns = [pattern | s for pattern in (*edges, *binades) for s in (0, sign)]
        digits = patterns if own is None else [own[p] for p in patterns if p in own]
        base = 2**fmt.width if own is None else len(own)
        others = generator.choice(digits, size=(len(digits), judged.columns - 1))
        numbers = [
            sum(int(d) * base**k for k, d in enumerate([digit, *rest][:: 1 if i % 2 else -1]))
            for i, (digit, rest) in enumerate(zip(digits, others, strict=True))
        ]
    random = [int(n) for n in generator.integers(0, judged.first, most)]
    return sorted([n for n in dict.fromkeys([*numbers, *random]) if n < judged.first][:most])
