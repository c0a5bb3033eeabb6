"""Inputs that are everything there is: every row of one or two columns in a 16-bit format, and slices of larger sets.

A domain numbers its rows, so that any part of it can be made on its own, on the host or on a device.
"""

from typing import Literal

import msgspec
import numpy as np

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FORMATS, Bits, Format
from softcheck.errors import UsageError

Kind = Literal["rows", "lattice", "differences"]


class Domain(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A numbered set of rows of one format.

    ``rows``: every row of ``columns`` bit patterns; row i holds the base-2^width digits of i, the first column the
    highest. ``lattice``: the same over the patterns that ``lattice_patterns`` picks. ``differences``: rows (0, -d) and
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
        fmt = self.format
        if self.kind == "differences":
            return _differences(start, count, fmt)
        patterns = lattice_patterns(fmt) if self.kind == "lattice" else None
        base = 2**fmt.width if patterns is None else len(patterns)
        index = np.arange(start, start + count, dtype=np.int64)
        digits = [(index // base ** (self.columns - 1 - j)) % base for j in range(self.columns)]
        chosen = np.stack(digits, axis=1)
        return chosen.astype(fmt.storage) if patterns is None else patterns[chosen]

    def describe(self) -> str:
        """The set in a few words."""
        if self.kind == "rows":
            what = f"every row of {self.columns} {self.dtype} patterns"
        elif self.kind == "differences":
            what = f"rows (0, -d) and (d, 0) for every {self.dtype} d >= 0"
        else:
            chosen = len(lattice_patterns(self.format))
            what = f"rows of {self.columns} among {chosen} of the {2**self.format.width} {self.dtype} patterns"
        return what if self.first == self.total else f"{what}, the first {self.first:,} of {self.total:,}"


def domain(
    dtype: str, columns: int, *, differences: bool = False, first: int | None = None, lattice: bool = False
) -> Domain:
    """The domain that a request names.

    Raises UsageError where it is larger than 2^32 rows and neither a slice nor a sub-lattice is asked for, and for
    differences of anything but float32 with two columns.
    """
    fmt = FORMATS[dtype]
    if differences:
        if fmt != FLOAT32 or columns != 2:
            raise UsageError(f"--differences is for float32 with --columns 2, got {dtype} with --columns {columns}")
        total = 2 * (fmt.exponent_mask + 1)
        return Domain(kind="differences", dtype=dtype, columns=2, total=total, first=_slice(total, first))
    if fmt not in (FLOAT16, BFLOAT16):
        raise UsageError(f"{dtype} has too many patterns; expected float16 or bfloat16, or float32 with --differences")
    if lattice:
        total = len(lattice_patterns(fmt)) ** columns
        return Domain(kind="lattice", dtype=dtype, columns=columns, total=total, first=_slice(total, first))
    total = 2 ** (fmt.width * columns)
    if columns > 2 and first is None:
        raise UsageError(
            f"{columns} columns make 2^{fmt.width * columns} rows; judge a slice of them with --sample-first N"
        )
    return Domain(kind="rows", dtype=dtype, columns=columns, total=total, first=_slice(total, first))


def lattice_patterns(fmt: Format) -> Bits:
    """Patterns at the edges of binades: mantissas 0, 1 and all ones at every third exponent, both signs, and specials.

    They are the sub-lattice for machines without a GPU, on which all pairs would take weeks.
    """
    low = (1 << (fmt.precision - 1)) - 1
    exponents = range(0, fmt.exponent_mask + 1, 3 << (fmt.precision - 1))
    step = _LATTICE_STEP[fmt.name]
    magnitudes = {e | m for e in list(exponents)[::step] for m in (0, 1, low)}
    magnitudes |= {fmt.exponent_mask, fmt.exponent_mask - 1, fmt.exponent_mask | (1 << (fmt.precision - 2))}
    sign = 1 << (fmt.width - 1)
    return np.array(sorted({m | s for m in magnitudes for s in (0, sign)}), dtype=fmt.storage)


_LATTICE_STEP = {"float16": 1, "bfloat16": 8}


def telling_rows(judged: Domain, most: int = 384) -> list[int]:
    """Numbers of up to ``most`` of a domain's rows that show first what is wrong, the same ones every time.

    Of each digit there is every edge pattern: zeros, infinities, NaN, and the ends of the range. Then come rows
    whose exponents are spread over all there are, of either sign, and random ones.
    """
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


def _differences(start: int, count: int, fmt: Format) -> Bits:
    index = np.arange(start, start + count, dtype=np.int64)
    magnitude = (index // 2).astype(fmt.storage)
    second = index % 2 == 1
    rows = np.zeros((count, 2), dtype=fmt.storage)
    rows[second, 0] = magnitude[second]
    rows[~second, 1] = magnitude[~second] | fmt.storage.type(1 << (fmt.width - 1))
    return rows


def _slice(total: int, first: int | None) -> int:
    if first is not None and first < 1:
        raise UsageError(f"--sample-first {first}: expected at least 1 row")
    return total if first is None else min(first, total)


def chunks(judged: Domain, size: int) -> list[tuple[int, int]]:
    """The domain cut into runs of at most ``size`` rows: first row and number of rows of each."""
    return [(start, min(size, judged.first - start)) for start in range(0, judged.first, size)]
