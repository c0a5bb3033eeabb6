"""Contents of rows by name: the values of the axis ``contents``. Imports no torch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from oracles.formats import Bits, Format, Values, decode, encode
from softcheck.cases.telling import telling_batch

PLAIN, EQUAL_ROWS = "ordinary", "equal rows"

_FAR, _APART = 800.0, 60.0
_REACHED = 16.0
"""Numbers below which ordinary logits lie."""
_MOST_NUMBERS = 2
"""Numbers of a variant's source on whose both sides the largest logits lie."""


def ordinary_rows(rows: int, columns: int, fmt: Format, seed: int = 0) -> Bits:
    """Bits of normally distributed logits of standard deviation 2, shape [rows, columns]; no two rows are equal."""
    generator = np.random.default_rng([seed, rows, columns])
    return encode(2.0 * generator.standard_normal((rows, columns)), fmt)


_PERIOD = 1_000_003
"""Elements after which large inputs repeat themselves: a prime, so that rows a power of two apart differ."""
_BEYOND = 150.0
"""Distance of some rows from the others, at which their exponentials vanish beside those."""
_PEAK_OF_ROWS, _LOW, _LAST_OF_LOW = 12.0, -30.0, -22.0
_FEW_ELEMENTS = 2**15
"""Elements up to which inputs have a fully masked row. The judge's screen does not pass such rows."""


def unlike_rows(rows: int, columns: int, fmt: Format, seed: int) -> Bits:
    """Bits of rows that all differ and show faults which ordinary rows hide, [rows, columns].

    One row in 16 has logits around -30, which show padding that is read as 0; its largest logit is in the last column and shows a dropped
    tail. The largest logit stands first in a quarter of the rows, and last in another. One row in 16 lies far below the others, so that a
    maximum that rows share shows. Where there are few elements, one row in 16 is fully masked.
    """
    if rows * columns <= _PERIOD:
        bits = ordinary_rows(rows, columns, fmt, seed)
    else:
        bits = np.resize(ordinary_rows(1, _PERIOD, fmt, seed), (rows, columns))
    peak, last_of_low, masked = encode(np.array([_PEAK_OF_ROWS, _LAST_OF_LOW, -np.inf]), fmt)
    for first, shift in ((0, _LOW), (11, -_BEYOND)):
        bits[first::16] = encode(decode(bits[first::16], fmt) + shift, fmt)
    bits[::16, -1:] = last_of_low
    if columns > 1:
        bits[2::4, 0] = peak
        bits[3::4, -1] = peak
        if bits.size <= _FEW_ELEMENTS:
            bits[6::16] = masked
    return bits


_PERIOD_OF_FILLS = 4
"""Rows after which those of a kind repeat what tells them from others."""

Fill = Callable[[Values, np.random.Generator], Values]
"""Returns rows in place of ordinary ones, float64 [rows, columns], in memory of their own."""


def _put(value: float, *places: Callable[[int, int], Any]) -> Fill:
    """Puts a value at some places, which follow from the number of columns and a random column."""

    def fill(rows: Values, rng: np.random.Generator) -> Values:
        columns = rows.shape[1]
        for place in places:
            rows[place(columns, int(rng.integers(columns)))] = value
        return rows

    return fill


def _far_apart(rows: Values, _rng: np.random.Generator) -> Values:
    """Moves each row as far from the next as exponentials reach: a maximum of several rows gives no number for some."""
    found: Values = rows + np.resize([-_FAR, 0.0, _FAR, 90.0], (len(rows), 1))
    return found


def _peaks(rows: Values, rng: np.random.Generator) -> Values:
    """Gives each row one logit that outweighs the others, by so much that a maximum without it gives no number for some: last, first and anywhere."""
    columns = rows.shape[1]
    places = np.resize([columns - 1, 0, int(rng.integers(columns))], len(rows))
    rows[np.arange(len(rows)), places] = rng.choice([30.0, _FAR], len(rows))
    return rows


def _growing(rows: Values, _rng: np.random.Generator) -> Values:
    """Lets the maximum grow from each sixteenth of a row to the next, and fall in every second row."""
    steps = _APART * np.floor(np.linspace(0.0, 15.999, rows.shape[1]))
    found: Values = rows + steps * np.resize([1.0, -1.0], (len(rows), 1))
    return found


FILLS: Mapping[str, Fill] = {
    PLAIN: lambda rows, _: rows,
    # Every third column, and the last half of each second row, as sequences of unequal length have them.
    "hidden columns": _put(-np.inf, lambda _, __: np.s_[:, 1::3], lambda n, _: np.s_[1::2, (n + 1) // 2 :]),
    "hidden rows": _put(-np.inf, lambda _, __: np.s_[::2]),
    "a short first row": _put(-np.inf, lambda n, _: np.s_[0, max(1, n // 4) :]),
    # As rows that are padded on the left have them: a sixteenth is seen, or a half.
    "hidden beginnings": _put(
        -np.inf, lambda n, _: np.s_[::2, : n - max(1, n // 16)], lambda n, _: np.s_[1::2, : n // 2]
    ),
    "far apart": _far_apart,
    "NaN": _put(np.nan, lambda _, column: np.s_[::3, column]),
    "+inf": _put(np.inf, lambda _, column: np.s_[::3, column]),
    "peaks": _peaks,
    "growing": _growing,
    # Of both signs: what is drawn from a row's bits, such as its target, would be the same for all zeros of one.
    "zeros": lambda rows, rng: np.copysign(0.0, rng.standard_normal(rows.shape)),
    EQUAL_ROWS: lambda rows, _: np.repeat(rows[:1], len(rows), axis=0),
    "wide": lambda rows, _: 6.0 * rows,
}
"""Contents by name. Those of any number of a source, and adversarial rows, are beside these."""

WITHOUT_NUMBERS = ("hidden rows", "NaN", "+inf")
"""Contents whose first row has an answer without numbers: alone it shows nothing else that is wrong."""
WITHOUT_A_MEAN = (*WITHOUT_NUMBERS, "hidden columns", "hidden beginnings", "a short first row")
"""Contents of which some rows' losses are infinite or NaN, and so is their mean."""

LIKE: Mapping[str, Callable[[Values], Values]] = {
    "zeros": np.zeros_like,
    "one number": lambda row: np.full_like(row, 1.5),
    "ascending numbers": np.sort,
    "descending numbers": lambda row: np.sort(row)[::-1],
    "whole numbers": lambda row: np.round(4 * row),
    "zeros and ones": lambda row: _place(row) % 2,
    "numbers above 0 and zeros": lambda row: np.maximum(row, 0.0),
    "small numbers": lambda row: row / 1024,
    "probabilities": lambda row: np.exp(row) / np.exp(row).sum(),
    "logarithms of probabilities": lambda row: row - np.log(np.exp(row).sum()),
    "0 in one column and -inf elsewhere": lambda row: np.where(_place(row) == 7, 0.0, -np.inf),
    "-inf behind the first column": lambda row: np.where(_place(row) == 0, row, -np.inf),
    "-inf in the last half": lambda row: np.where(_place(row) < row.size // 2, row, -np.inf),
    "two equal halves": lambda row: np.concatenate([row[: row.size // 2]] * 2),
    "each number twice": lambda row: np.repeat(row[: row.size // 2], 2),
    "-inf in the first and last columns": lambda row: np.where(
        abs(_place(row) - row.size / 2) < row.size / 3, row, -np.inf
    ),
}
"""Single rows of an even number of columns by name, which a wrapper may look for to take a shorter way."""


def _place(row: Values) -> Values:
    return np.arange(row.size, dtype=np.float64)


AT_BOTH_ENDS, THROUGHOUT = "at both ends", "throughout"
_WIDE, _PEAK = 10.0, 100.0


def beside_like(bits: Bits, like: str, fmt: Format) -> Bits:
    """Returns rows of which the first and the last one, or all, look like a special input, one of ``LIKE``.

    The others are ordinary ones, wide ones, one with a peak in its last column, and one that is padded: they show a way that is right for
    the special input alone.
    """
    rows = decode(bits, fmt)
    rows = np.where(np.isfinite(rows), rows, 0.0)
    made = LIKE[like.removesuffix(f" {AT_BOTH_ENDS}").removesuffix(f" {THROUGHOUT}")]
    # Of an odd number of columns two halves are one column short.
    special = np.stack([np.resize(made(row), row.size) for row in rows])
    if like.endswith(THROUGHOUT):
        return encode(special, fmt)
    rows[2:4] *= _WIDE
    rows[3:4, -1] = _PEAK
    rows[4:5, -5:] = -np.inf
    rows[[0, -1]] = special[len(rows) // 2]
    return encode(rows, fmt)


ADVERSARIAL = "adversarial"
HUGE = "huge"


def names(numbers: Sequence[float], fmt: Format) -> tuple[str, ...]:
    """Returns the names of contents for a variant whose source has these numbers."""
    floats = dict.fromkeys(abs(n) for n in numbers if isinstance(n, float) and 1.0 <= abs(n) < fmt.max / 2)
    whole = dict.fromkeys(abs(n) for n in numbers if n == int(n) and 2.0 < abs(n) <= 1000.0)
    # Ordinary logits don't reach the large ones, which are limits, and in place of -inf the start of a maximum.
    own = list(dict.fromkeys([*sorted(floats, key=lambda n: n < _REACHED), *whole]))
    return (
        *FILLS,
        ADVERSARIAL,
        HUGE,
        *(f"{side}{n:g}" for n in own[:_MOST_NUMBERS] for side in ("above ", "below -")),
    )


def partly_hidden(bits: Bits, fmt: Format, rng: np.random.Generator) -> Bits:
    """Returns rows of which each seventh column, others from row to row and from draw to draw but never the first, is -inf, as a mask hides it."""
    rows, columns = (np.arange(size) for size in bits.shape)
    is_hidden = ((columns + 5 * rows[:, None]) % 7 == rng.integers(7)) & (columns > 0)
    return np.where(is_hidden, encode(np.array(-np.inf), fmt), bits)


def mixed_rows(
    name: str, rows: int, columns: int, fmt: Format, rng: np.random.Generator, numbers: Sequence[float] = ()
) -> Bits:
    """Returns bits of rows of which the first has such contents, and each other one those of a kind of its own, [rows, columns].

    A call meets many kinds at once that way: what is wrong of one row shows whatever the others hold.
    """
    others = [each for each in names(numbers, fmt) if each != name]
    kinds = np.resize([name, *rng.permutation(others)], rows)
    found = np.empty((rows, columns), dtype=fmt.storage)
    for kind in dict.fromkeys(kinds.tolist()):
        own = np.flatnonzero(kinds == kind)
        drawn = rows_of(kind, max(_PERIOD_OF_FILLS, len(own)), columns, fmt, rng, numbers)
        # The first row of each kind shows it most.
        found[own] = drawn[: len(own)]
    return found


def rows_of(
    name: str, rows: int, columns: int, fmt: Format, rng: np.random.Generator, numbers: Sequence[float] = ()
) -> Bits:
    """Returns bits of rows with such contents, [rows, columns].

    ``numbers`` are those of a variant's source, near which adversarial rows lie.
    """
    ordinary = 2.0 * rng.standard_normal((rows, columns))
    if name == ADVERSARIAL and rows and columns:
        drawn = telling_batch(columns, max(1, columns // 4), fmt, rng, values=[n for n in numbers if n], most=rows)
        return np.ascontiguousarray(np.take(drawn, range(rows), axis=0, mode="wrap"))
    if name == HUGE:
        return encode(np.clip(ordinary / 8.0, -1.0, 1.0) * fmt.max, fmt)
    if name not in FILLS:
        # All logits beyond a number, which a kernel may take for a limit.
        side, _, number = name.partition(" ")
        apart = 1.0 + abs(float(number)) / 1024
        ordinary = float(number) + apart * (ordinary + (8.0 if side == "above" else -8.0))
    else:
        ordinary = FILLS[name](ordinary, rng) if rows and columns else ordinary
    return encode(np.where(np.isfinite(ordinary), np.clip(ordinary, -fmt.max, fmt.max), ordinary), fmt)
