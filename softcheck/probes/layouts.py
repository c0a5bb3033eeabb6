"""The same rows at other strides, offsets and base addresses; each output is judged by itself.

Bits may differ from a contiguous copy's, since kernels may take another path: what is wrong where the contiguous copy is right
is a ``wrong_layout`` if other elements were read, and otherwise the judge's own kind. What lies between the elements is NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from oracles.formats import Bits, decode, encode
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.diagnose import differ_grossly
from softcheck.probes.kit import call_on, concluded, ordinary_rows, prefixed, stopped, wrong_values
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.poison import nan_filled
from softcheck.variants.call import Placed, call, to_tensor

_ALIGNMENT = 16
"""Bytes of the widest load of one thread."""


@dataclass(frozen=True, slots=True)
class _Input:
    rows: int
    columns: int
    layout: Layout


def _strided(rows: int, columns: int) -> dict[str, Layout]:
    return {
        "row-step": Layout(row_stride=2 * columns),
        "padded-by-1": Layout(row_stride=columns + 1),
        "column-slice": Layout(row_stride=2 * columns + 9, offset=5),
        "every-second-column": Layout(row_stride=2 * columns, column_stride=2),
        "transposed": Layout(row_stride=1, column_stride=rows),
        "transposed-with-gaps": Layout(row_stride=3, column_stride=3 * rows + 5, offset=1),
        "overlapping-rows": Layout(row_stride=1),
        "expanded-rows": Layout(row_stride=0),
        "expanded-columns": Layout(row_stride=1, column_stride=0),
        "expanded-rows-and-columns": Layout(row_stride=0, column_stride=0),
    }


class Layouts(Probe):
    """Strides, offsets and base addresses are honoured."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Strided layouts where they are declared; offsets, and odd strides of dimensions of size 1, always.

        A tensor whose rows are packed is contiguous wherever it begins and whatever the stride of a dimension of size 1.
        Under the interpreter, which knows no alignment, the least and the largest offset stand for all.
        """
        shapes = [(3, 129), (4, 1030)] if setting.on_gpu and not setting.quick else [(2, 129)]
        every = _ALIGNMENT // setting.fmt.itemsize
        offsets = range(1, every) if setting.on_gpu else sorted({1, every - 1})
        found = []
        for rows, asked in shapes:
            columns = asked if setting.takes(asked) else 1
            if "strided" in setting.declaration.layouts:
                found += [
                    Trial(f"strided/{name}-{columns}", _Input(rows, columns, layout))
                    for name, layout in _strided(rows, columns).items()
                ]
            found += [
                Trial(f"offset/{offset}-{columns}", _Input(rows, columns, Layout(offset=offset))) for offset in offsets
            ]
            found.append(Trial(f"size-1/one-row-{columns}", _Input(1, columns, Layout(row_stride=7))))
        found.append(Trial("size-1/one-column", _Input(3, 1, Layout(row_stride=1, column_stride=5))))
        return list({trial.label: trial for trial in found}.values())

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """One call where all is well."""
        asked: _Input = trial.parameters
        storage, bits = _contents(asked, subject)
        view = to_tensor(storage, subject.setting.fmt, subject.device)
        strides = asked.layout.strides(asked.columns)
        placed = Placed(
            view.as_strided((asked.rows, asked.columns), strides, asked.layout.offset), view, subject.setting.fmt
        )
        with nan_filled():
            called = call(subject.variant.function, placed)
        if called.output is None:
            return stopped(called)
        wrong = wrong_values(subject, bits, called.output)
        if not wrong:
            return Outcome()
        packed = call_on(subject, bits, PACKED)
        if packed.output is None:
            return stopped(packed)
        circumstances = f"right on a contiguous copy, wrong with strides {strides} and offset {asked.layout.offset}"
        return Outcome(
            violations=_caused(
                wrong,
                wrong_values(subject, bits, packed.output),
                circumstances,
                gross=differ_grossly(
                    decode(called.output, subject.setting.fmt), decode(packed.output, subject.setting.fmt)
                ),
            )
        )

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        """One finding for each kind and group of layouts."""
        return concluded(done)


def _contents(asked: _Input, subject: Subject) -> tuple[Bits, Bits]:
    """The storage, NaN where no element lies, and the matrix that it holds. Elements may share memory."""
    fmt, layout = subject.setting.fmt, asked.layout
    row_stride, column_stride = layout.strides(asked.columns)
    where = layout.offset + np.add.outer(row_stride * np.arange(asked.rows), column_stride * np.arange(asked.columns))
    # A kernel that takes the rows for packed reads beyond the last element of an expanded matrix: NaN there too.
    extent = layout.extent(asked.rows, asked.columns) + where.size
    storage = np.full(extent, encode(np.array([np.nan]), fmt)[0], dtype=fmt.storage)
    used = np.unique(where)
    storage[used] = ordinary_rows(1, len(used), fmt, subject.setting.seed)[0]
    bits: Bits = storage[where]
    return storage, bits


def _caused(
    strided: Sequence[Violation], packed: Sequence[Violation], circumstances: str, *, gross: bool
) -> tuple[Violation, ...]:
    """What is wrong with these strides alone."""
    also_packed = {v.kind for v in packed}
    caused = [v for v in strided if v.kind not in also_packed]
    if caused and gross:
        caused = [msgspec.structs.replace(caused[0], kind=FindingKind.WRONG_LAYOUT, share=None)]
    return prefixed(caused, circumstances)


PROBE = Layouts()
