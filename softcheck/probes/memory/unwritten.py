"""Fills all memory that torch hands out uninitialised, output and workspace, with one pattern after another.

An output that is a function of the input alone has the same bits each time. NaN reaches every allocation, since torch
itself fills it. Bytes 0x7F and ordinary values reach memory that Python code asks for by name, and memory that the
allocators hand out again.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

import numpy as np

from oracles.formats import Bits, encode, format_of
from softcheck.calling.call import Called, call, place
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import Repeated, call_on, ordinary_rows, same_bits, shapes, stopped, unlike
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import dirty, filled, filled_with_bytes, nan_filled

_ORDINARY = 0.34375
"""A value that softmax may return, so that values computed from it are plausible too. It is exact in every format."""
_BYTE, _OF_ORDINARY = 0x7F, 0x34

Fill = Callable[[], AbstractContextManager[None]]
_PATTERNS: Mapping[str, tuple[Fill, int]] = {
    "bytes 0x7f": (lambda: filled_with_bytes(_BYTE), _BYTE),
    "ordinary values": (lambda: filled(_ORDINARY), _OF_ORDINARY),
}
"""Ways to fill memory, each with the byte that freed blocks hold."""


class _Unwritten(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        """One trial per shape. There are wide shapes, since a kernel leaves a tail out beyond a tile's width."""
        asked = (
            shapes(setting) if setting.on_gpu else [(2, columns) for columns in (129, 1100) if setting.takes(columns)]
        )
        return [Trial(f"{rows}x{columns}", (rows, columns)) for rows, columns in asked]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Makes one trial; three calls if all is well."""
        fmt = subject.setting.fmt
        rows, columns = trial.parameters
        bits = ordinary_rows(rows, columns, fmt, subject.setting.seed)
        plain = Repeated(partial(call_on, subject, bits))
        if plain.first.output is None:
            return stopped(plain.first)
        output_format = format_of(plain.first.output, fmt)
        for name, (fill, byte) in _PATTERNS.items():
            other = Repeated(partial(_on_pattern, subject, bits, fill, byte))
            if other.first.output is None:
                return stopped(other.first)
            if byte == _BYTE:
                pattern = int.from_bytes(bytes([_BYTE]) * output_format.itemsize)
            else:
                pattern = int(encode(np.array([_ORDINARY]), output_format)[0])
            held = (other.first.output == pattern) & ~same_bits(plain.first.output, other.first.output, fmt)
            seen = f"where memory held NaN before the call, and then {name}"
            # Elements that hold the pattern itself were not written, whatever else varies.
            for words, kept in (("were never written", held), ("change with uninitialised memory", None)):
                said = f"output elements {words}, {seen}"
                found = unlike(plain, other, FindingKind.UNWRITTEN_OUTPUT, said, fmt, kept=kept, inputs=bits)
                if found is not None:
                    return found
        return Outcome()


PROBE = _Unwritten()


def _on_pattern(subject: Subject, bits: Bits, fill: Fill, byte: int) -> Called:
    placed = place(bits, subject.setting.fmt, PACKED, subject.device)
    rows, _ = bits.shape
    # The output, and values that a kernel may keep per row: in the input's type, in float32 or int32, and in float64.
    sizes = (bits.nbytes, rows * bits.itemsize, 4 * rows, 8 * rows, 4 * bits.size)
    dirty(subject.device, tuple(dict.fromkeys(sizes)), byte)
    with nan_filled(filling=False), fill():
        return call(subject.variant.function, placed, subject.setting.operation)
