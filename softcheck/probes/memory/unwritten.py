"""Fills all memory that torch hands out uninitialised, output and workspace, with one pattern after another.

An output that is a function of the input alone has the same bits each time. NaN reaches every allocation, since torch
itself fills it. Bytes 0x7F and ordinary values reach memory that Python code asks for by name, and memory that the
allocators hand out again.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import torch

from oracles.formats import Bits, format_of
from softcheck.calling.call import TORCH_DTYPES, Called, call, place, to_bits
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import Repeated, call_on, ordinary_rows, same_bits, shapes, unlike
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import dirty, filled, nan_filled

_ORDINARY = 0.34375
"""A value that softmax may return, so that values computed from it are plausible too. It is exact in every format."""

_PATTERNS: Mapping[str, tuple[int | None, int]] = {"bytes 0x7f": (0x7F, 0x7F), "ordinary values": (None, 0x34)}
"""The byte that fills memory, which holds the ordinary value elsewhere, and the byte that freed blocks hold."""


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
        for name, (fill, byte) in _PATTERNS.items():
            other = Repeated(partial(_on_pattern, subject, bits, fill, byte))
            seen = f"where memory held NaN before the call, and then {name}"
            before, after, held = plain.first.output, other.first.output, None
            if before is not None and after is not None:
                with filled(_ORDINARY, fill):
                    dtype = TORCH_DTYPES[format_of(after, fmt).name]
                    unwritten = to_bits(torch.empty(1, dtype=dtype, device=subject.device), fmt)
                held = (after == unwritten) & ~same_bits(before, after, fmt)
            # Elements that hold the pattern itself were not written, whatever else varies.
            for words, kept in (("were never written", held), ("change with uninitialised memory", None)):
                said = f"output elements {words}, {seen}"
                found = unlike(plain, other, FindingKind.UNWRITTEN_OUTPUT, said, fmt, kept=kept, inputs=bits)
                if found is not None:
                    return found
        return Outcome()


PROBE = _Unwritten()


def _on_pattern(subject: Subject, bits: Bits, fill: int | None, byte: int) -> Called:
    placed = place(bits, subject.setting.fmt, PACKED, subject.device)
    rows, _ = bits.shape
    # The output, and values that a kernel may keep per row: in the input's type, in float32 or int32, and in float64.
    sizes = (bits.nbytes, rows * bits.itemsize, 4 * rows, 8 * rows, 4 * bits.size)
    dirty(subject.device, tuple(dict.fromkeys(sizes)), byte)
    with nan_filled(filling=False), filled(_ORDINARY, fill):
        return call(subject.variant.function, placed, subject.setting.operation)
