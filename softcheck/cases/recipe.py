"""Seeded recipes: inputs too large to store as bits, with the same bits on every machine.

A recipe is one generator followed by modifiers. All arithmetic is on integers or by single float64 additions and
multiplications, which IEEE 754 rounds alike everywhere. No library's random numbers or transcendental functions are
used, since they change between versions and processors. The last step rounds once to the format.
"""

# The base classes document what every `values` and `apply` does and takes.
# ruff: noqa: ARG002, D102

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracles.formats import Bits, Format, Values, decode, encode
from softcheck.errors import UsageError

Number = float | Literal["nan", "inf", "-inf", "max", "min", "least_normal", "least_subnormal"]
"""A value: a finite number, or a word for one that JSON can't write or that depends on the format."""

Seed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
Numbers = Annotated[tuple[Number, ...], msgspec.Meta(min_length=1)]


def number(value: Number, fmt: Format) -> float:
    """The float64 value of a recipe's number in a format."""
    words = {
        "nan": float("nan"),
        "inf": float("inf"),
        "-inf": float("-inf"),
        "max": fmt.max,
        "min": -fmt.max,
        "least_normal": fmt.least_normal,
        "least_subnormal": fmt.least_subnormal,
    }
    return words[value] if isinstance(value, str) else float(value)


class Generator(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="make"):
    """Fills a matrix. Row i depends on i and the column count alone, so the first rows of a case are a smaller case."""

    def values(self, rows: int, columns: int, fmt: Format) -> Values:
        """Float64 values, shape [rows, columns], not yet rounded to the format."""
        raise NotImplementedError


class Modifier(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="op"):
    """Changes a filled matrix."""

    def apply(self, values: Values, fmt: Format) -> Values:
        """A changed matrix of the same shape; may reuse the memory of ``values``."""
        raise NotImplementedError


def random_words(seed: int, rows: int, columns: int, words: int, first_row: int = 0) -> NDArray[np.uint64]:
    """Uniform 64-bit words, shape [rows, columns, words]: the SplitMix64 sequence, addressed by element.

    ``first_row`` is the row that the first of the returned rows is. Source: Steele, Lea and Flood, "Fast splittable
    pseudorandom number generators", OOPSLA 2014.
    """
    golden = np.uint64(0x9E3779B97F4A7C15)
    start_word, size = first_row * columns * words, rows * columns * words
    counter = np.arange(start_word, start_word + size, dtype=np.uint64).reshape(rows, columns, words)
    with np.errstate(over="ignore"):
        start = np.array([seed], dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)
        z = start + (counter + np.uint64(1)) * golden
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


class Normal(Generator, frozen=True, tag="normal"):
    """``shift + scale * z`` with z close to a standard normal: a sum of twelve uniforms minus 6, so |z| <= 6."""

    seed: Seed
    scale: float = 1.0
    shift: float = 0.0

    def values(self, rows: int, columns: int, fmt: Format) -> Values:
        filled = np.empty((rows, columns))
        # In blocks of rows, since seven words per element would take over 200 bytes of memory each.
        step = max(1, _BLOCK_ELEMENTS // max(columns, 1))
        for first in range(0, rows, step):
            count = min(step, rows - first)
            filled[first : first + count] = self._block(first, count, columns)
        return filled

    def _block(self, first_row: int, rows: int, columns: int) -> Values:
        words = random_words(self.seed, rows, columns, 7, first_row)
        halves = (words[..., :6] & np.uint64(0xFFFFFFFF)) + (words[..., :6] >> np.uint64(32))
        total = halves.sum(axis=-1, dtype=np.uint64).astype(np.int64) - 6 * 2**32
        # 36 bits of sum and 17 fresh low bits fill a float64 significand, so that differences must round.
        fixed = (total << 17) + (words[..., 6] >> np.uint64(47)).astype(np.int64)
        standard: Values = fixed.astype(np.float64) * 2.0**-49
        return self.shift + self.scale * standard


class Uniform(Generator, frozen=True, tag="uniform"):
    """Uniform on [low, high)."""

    seed: Seed
    low: float
    high: float

    def values(self, rows: int, columns: int, fmt: Format) -> Values:
        unit = (random_words(self.seed, rows, columns, 1)[..., 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return self.low + (self.high - self.low) * unit


class RandomBits(Generator, frozen=True, tag="random_bits"):
    """Uniform over the format's bit patterns; only finite ones unless ``specials``."""

    seed: Seed
    specials: bool = False

    def values(self, rows: int, columns: int, fmt: Format) -> Values:
        patterns = random_words(self.seed, rows, columns, 1)[..., 0] >> np.uint64(64 - fmt.width)
        if not self.specials:
            mask = np.uint64(fmt.exponent_mask)
            lowest = np.uint64(1 << (fmt.precision - 1))
            patterns = np.where((patterns & mask) == mask, patterns ^ lowest, patterns)
        return decode(patterns.astype(fmt.storage), fmt)


class Constant(Generator, frozen=True, tag="constant"):
    """One value everywhere."""

    value: Number

    def values(self, rows: int, columns: int, fmt: Format) -> Values:
        return np.full((rows, columns), number(self.value, fmt))


class Ramp(Generator, frozen=True, tag="ramp"):
    """``start + step * column``."""

    start: float
    step: float

    def values(self, rows: int, columns: int, fmt: Format) -> Values:
        row = self.start + self.step * np.arange(columns, dtype=np.float64)
        return np.tile(row, (rows, 1))


class Cycle(Generator, frozen=True, tag="cycle"):
    """The given values in turn along every row."""

    items: Numbers

    def values(self, rows: int, columns: int, fmt: Format) -> Values:
        items = np.array([number(v, fmt) for v in self.items])
        return np.tile(items[np.arange(columns) % len(items)], (rows, 1))


class RowConstants(Generator, frozen=True, tag="row_constants"):
    """Rows of one value each, the given values in turn."""

    items: Numbers

    def values(self, rows: int, columns: int, fmt: Format) -> Values:
        items = np.array([number(v, fmt) for v in self.items])
        return np.repeat(items[np.arange(rows) % len(items)][:, None], columns, axis=1)


class Choice(Generator, frozen=True, tag="choice"):
    """Each element one of the given values, at random: many ties."""

    seed: Seed
    items: Numbers

    def values(self, rows: int, columns: int, fmt: Format) -> Values:
        items = np.array([number(v, fmt) for v in self.items])
        return items[(random_words(self.seed, rows, columns, 1)[..., 0] % np.uint64(len(items))).astype(np.int64)]


class OneHot(Generator, frozen=True, tag="one_hot"):
    """``high`` at one column and ``low`` elsewhere; row i has its peak at ``column``, or at column i mod columns."""

    low: Number
    high: Number
    column: Count | None = None

    def values(self, rows: int, columns: int, fmt: Format) -> Values:
        filled = np.full((rows, columns), number(self.low, fmt))
        if columns:
            peak = np.arange(rows) if self.column is None else np.full(rows, self.column)
            filled[np.arange(rows), peak % columns] = number(self.high, fmt)
        return filled


class Mask(Modifier, frozen=True, tag="mask"):
    """Overwrites columns with a value: the leading or trailing ``count``, every second one, all, or all but one.

    The columns are overwritten in every row, or in one row only.
    """

    where: Literal["leading", "trailing", "even", "odd", "all", "all_but"]
    count: Count = 0
    """The number of columns (leading, trailing), or the column that stays (all_but)."""
    value: Number = "-inf"
    row: Count | None = None

    def apply(self, values: Values, fmt: Format) -> Values:
        rows, columns = values.shape
        index = np.arange(columns)
        hit = {
            "leading": index < self.count,
            "trailing": index >= columns - self.count,
            "even": index % 2 == 0,
            "odd": index % 2 == 1,
            "all": np.ones(columns, dtype=np.bool_),
            "all_but": index != self.count,
        }[self.where]
        if self.row is None:
            values[:, hit] = number(self.value, fmt)
        elif self.row < rows:
            values[self.row, hit] = number(self.value, fmt)
        return values


class Put(Modifier, frozen=True, tag="put"):
    """Overwrites one column, of every row or of one. Negative columns count from the end."""

    column: int
    value: Number
    row: Count | None = None

    def apply(self, values: Values, fmt: Format) -> Values:
        rows, columns = values.shape
        if columns and (self.row is None or self.row < rows):
            chosen = slice(None) if self.row is None else self.row
            values[chosen, self.column % columns] = number(self.value, fmt)
        return values


class Sort(Modifier, frozen=True, tag="sort"):
    """Sorts every row."""

    descending: bool = False

    def apply(self, values: Values, fmt: Format) -> Values:
        # Stable, so that zeros of both signs keep an order that doesn't depend on the processor.
        ordered = np.sort(values, axis=1, kind="stable")
        return ordered[:, ::-1] if self.descending else ordered


class Shift(Modifier, frozen=True, tag="shift"):
    """Adds one value to every element."""

    by: float

    def apply(self, values: Values, fmt: Format) -> Values:
        return values + self.by


AnyGenerator = Normal | Uniform | RandomBits | Constant | Ramp | Cycle | RowConstants | Choice | OneHot
AnyModifier = Mask | Put | Sort | Shift


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A generator, then modifiers in order."""

    start: AnyGenerator
    then: tuple[AnyModifier, ...] = ()

    def bits(self, rows: int, columns: int, fmt: Format) -> Bits:
        """Bit patterns of the matrix, shape [rows, columns].

        Raises UsageError where the matrix would not fit into the memory that is free.
        """
        check_memory(rows * columns * _BYTES_PER_ELEMENT, f"the recipe of {rows * columns:,} elements")
        # Overflow to infinity and NaN are values that a recipe may ask for.
        with np.errstate(all="ignore"):
            values = self.start.values(rows, columns, fmt)
            for modifier in self.then:
                values = modifier.apply(values, fmt)
            return encode(values, fmt)


_BLOCK_ELEMENTS = 1 << 16

_BYTES_PER_ELEMENT = 48
"""Peak use of a step that holds a whole matrix (rounding to bfloat16)."""


def check_memory(wanted: int, what: str) -> None:
    """Raises UsageError before the machine swaps or the process is killed, which would lose the measurements so far."""
    available = available_bytes()
    if available is not None and wanted > available:
        raise UsageError(
            f"{what} spans {wanted / 2**30:.1f} GiB; {available / 2**30:.1f} GiB are free. Ask for fewer rows or columns, or "
            "for smaller strides or offsets"
        )


def available_bytes() -> int | None:
    """Memory that can be had without swapping, where the system tells."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None
