"""Fills all memory that torch hands out uninitialised, output and workspace, with one pattern after another.

An output that is a function of the input alone has the same bits each time. NaN reaches every allocation, since torch
itself fills it. Bytes 0x7F and ordinary values reach memory that Python code asks for by name, and memory that the
allocators hand out again.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from oracles.formats import Bits, bits_hex, encode, format_of
from softcheck.calling.call import Called, call, place
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.helpers import GroupedProbe, call_on, ordinary_rows, same_bits, shapes, stopped
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import dirty, filled, filled_with_bytes, nan_filled

_ORDINARY = 0.34375
"""A value that softmax may return, so that values computed from it are plausible too. It is exact in every format."""
_BYTE = 0x7F
_REPEATS = 2


@dataclass(frozen=True, slots=True)
class _Pattern:
    name: str
    fill: Callable[[], AbstractContextManager[None]]
    byte: int
    """The byte that freed blocks hold."""

    def fill_bits(self, itemsize: int, ordinary: int) -> int:
        """Bits of an output element that still holds the pattern."""
        return int.from_bytes(bytes([_BYTE]) * itemsize) if self.byte == _BYTE else ordinary


_PATTERNS = (
    _Pattern("bytes 0x7f", lambda: filled_with_bytes(_BYTE), _BYTE),
    _Pattern("ordinary values", lambda: filled(_ORDINARY), 0x34),
)


class Unwritten(GroupedProbe):
    """Checks that results don't change with the contents of uninitialised memory."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """One trial per shape. There are wide shapes, since a kernel leaves a tail out beyond a tile's width."""
        asked = (
            shapes(setting) if setting.on_gpu else [(2, columns) for columns in (129, 1100) if setting.takes(columns)]
        )
        return [Trial(f"{rows}x{columns}", (rows, columns)) for rows, columns in asked]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Makes one trial; three calls if all is well."""
        rows, columns = trial.parameters
        bits = ordinary_rows(rows, columns, subject.setting.fmt, subject.setting.seed)
        first = call_on(subject, bits)
        if first.output is None:
            return stopped(first)
        for pattern in _PATTERNS:
            other = _pattern_call(subject, bits, pattern)
            if other.output is None:
                return stopped(other)
            if not same_bits(first.output, other.output, subject.setting.fmt).all():
                found = _confirmed(subject, bits, first.output, other.output, pattern)
                if found is not None:
                    return Outcome(violations=(found,))
        return Outcome()


def _pattern_call(subject: Subject, bits: Bits, pattern: _Pattern) -> Called:
    placed = place(bits, subject.setting.fmt, PACKED, subject.device)
    rows, _ = bits.shape
    # The output, and values that a kernel may keep per row: in the input's type, in float32 or int32, and in float64.
    sizes = (bits.nbytes, rows * bits.itemsize, 4 * rows, 8 * rows, 4 * bits.size)
    dirty(subject.device, tuple(dict.fromkeys(sizes)), pattern.byte)
    with nan_filled(filling=False), pattern.fill():
        return call(subject.variant.function, placed, subject.setting.operation)


def _confirmed(subject: Subject, bits: Bits, first: Bits, other: Bits, pattern: _Pattern) -> Violation | None:
    """Returns a violation if the pattern causes the difference.

    A kernel that varies between equal calls is not accused. Elements that hold the pattern itself were not written,
    whatever else varies.
    """
    fmt = subject.setting.fmt
    steady = np.ones(first.shape, dtype=bool)
    for _ in range(_REPEATS):
        again, other_again = call_on(subject, bits).output, _pattern_call(subject, bits, pattern).output
        if again is None or other_again is None:
            return None
        steady &= same_bits(first, again, fmt) & same_bits(other, other_again, fmt)
    differs = ~same_bits(first, other, fmt)
    input_format, fmt = fmt, format_of(first, fmt)
    ordinary = int(encode(np.array([_ORDINARY]), fmt)[0])
    held = differs & steady & (other == pattern.fill_bits(fmt.itemsize, ordinary))
    if not steady.all() and not held.any():
        return None
    guilty = held if held.any() else differs
    row, column = (int(i[0]) for i in np.nonzero(guilty))
    what = (
        "were never written: they hold whatever the memory held before"
        if held.any()
        else "change with what uninitialised memory held before the call"
    )
    return Violation(
        FindingKind.UNWRITTEN_OUTPUT,
        f"{int(guilty.sum())} of {guilty.size} output elements {what}, first at row {row}, column {column}: "
        f"{bits_hex(first[row, column], fmt)} after NaN, {bits_hex(other[row, column], fmt)} after {pattern.name}; "
        "expected the same bits",
        count=int(guilty.sum()),
        row=row,
        column=column,
        input_bits=bits_hex(bits[row, column], input_format),
        output_bits=bits_hex(other[row, column], fmt),
    )


PROBE = Unwritten()
