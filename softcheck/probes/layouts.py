"""Rows at other strides, offsets and base addresses, and in more dimensions; each output is judged by itself.

Bits may differ from those of a contiguous copy, since kernels may take another path. An output that is wrong where the
contiguous copy's is right is a ``wrong_layout`` if other elements were read, and otherwise has the judge's own kind.
The memory between the elements holds NaN.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import msgspec
import numpy as np

from oracles.formats import Bits, decode, encode, format_of
from softcheck.calling.call import Placed, call, to_tensor
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.diagnose import differ_grossly
from softcheck.probes.helpers import (
    FAR,
    GroupedProbe,
    call_on,
    moved,
    ordinary_rows,
    prefixed,
    stopped,
    wrong_values,
)
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled

_ALIGNMENT = 16
"""Bytes of the widest load of one thread."""

_NARROW = (5, 3)
"""Rows shorter than the way to the next aligned address."""

_WIDE = (2, 33000)
"""Rows in which a column's number, or its offset, needs more than 16 bits."""

_CONTENTS = ("ordinary", "special", "far")


@dataclass(frozen=True, slots=True)
class _Input:
    shape: tuple[int, ...]
    """The last dimension is the row."""
    strides: tuple[int, ...]
    offset: int = 0


_LEADING = (2, 3, 2, 2)
"""Sizes of the dimensions before the row, chosen so that no dimension can be taken for another."""


def _higher(count: int, columns: int, *, is_strided: bool) -> dict[str, _Input]:
    """Inputs of ``count`` dimensions: with rows in order and, if ``is_strided``, in other orders and with gaps.

    A call that takes several dimensions for one may look at two of them alone, so that each two that lie beside each other
    are exchanged by themselves, each has a gap behind it by itself, and the first is expanded. The row is exchanged with the
    dimension before it, as scores are transposed, and lies outside of all.
    """
    leading = _LEADING[: count - 1]
    in_order = range(count - 1)
    found = {"packed": _strides(leading, reversed(in_order), step=columns)}
    if is_strided:
        # No single stride between rows describes these two.
        found["transposed"] = _strides(leading, in_order, step=columns)
        found["with-gaps"] = _strides(leading, in_order, step=columns + 3, gap=7)
        for place in in_order[:-1] if count > 3 else ():
            exchanged = [*in_order]
            exchanged[place : place + 2] = place + 1, place
            found[f"exchanged-{place}-{place + 1}"] = _strides(leading, reversed(exchanged), step=columns)
        # One batch that stands for all.
        found["expanded-0"] = [0, *found["packed"][1:]]
        for place in in_order:
            found[f"gap-behind-{place}"] = _strides(
                leading, reversed(in_order), step=columns, gaps={place: 3 * columns}
            )
    every = {name: (*strides, 1) for name, strides in found.items()}
    if is_strided:
        shape, before = (*leading, columns), [*reversed(in_order)]
        every["row-exchanged"] = tuple(_strides(shape, (before[0], count - 1, *before[1:]), step=1))
        every["row-outside"] = tuple(_strides(shape, (*before, count - 1), step=1))
    return {name: _Input((*leading, columns), strides) for name, strides in every.items()}


def _strides(
    leading: Sequence[int],
    innermost_first: Iterable[int],
    *,
    step: int,
    gap: int = 0,
    gaps: Mapping[int, int] = MappingProxyType({}),
) -> list[int]:
    """Strides of dimensions in this order in memory, with a gap behind each, or behind some by number."""
    strides = [0] * len(leading)
    for place in innermost_first:
        step += gaps.get(place, 0)
        strides[place] = step
        step = step * leading[place] + gap
    return strides


def _matrix(rows: int, columns: int, layout: Layout) -> _Input:
    return _Input((rows, columns), layout.strides(columns), layout.offset)


def strided_layouts(rows: int, columns: int) -> dict[str, Layout]:
    """Returns layouts of a matrix of this shape that are not packed, by name."""
    return {
        "row-step": Layout(row_stride=2 * columns),
        "padded-by-1": Layout(row_stride=columns + 1),
        "column-slice": Layout(row_stride=2 * columns + 9, offset=5),
        "every-second-column": Layout(row_stride=2 * columns, column_stride=2),
        "every-fifth-column": Layout(row_stride=5 * columns + 3, column_stride=5),
        "every-33rd-column": Layout(row_stride=33 * columns, column_stride=33),
        "transposed": Layout(row_stride=1, column_stride=rows),
        "transposed-slice": Layout(row_stride=1, column_stride=rows + 5, offset=2),
        "transposed-with-gaps": Layout(row_stride=3, column_stride=3 * rows + 5, offset=1),
        "overlapping-rows": Layout(row_stride=1),
        "expanded-rows": Layout(row_stride=0),
        "expanded-columns": Layout(row_stride=1, column_stride=0),
        "expanded-rows-and-columns": Layout(row_stride=0, column_stride=0),
    }


_NAMES = tuple(strided_layouts(1, 1))
_OF_HEADS = ("column-slice", "transposed", "expanded-rows")
"""For heads three stand for all: the rows of their operands lie apart wherever the matrix is not packed."""


class Layouts(GroupedProbe):
    """Checks that strides, offsets and base addresses are honoured."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Strided layouts if they are declared; offsets, and odd strides of dimensions of size 1, always.

        A tensor of packed rows is contiguous wherever it begins and whatever the stride of a dimension of size 1. The
        interpreter knows no alignment, so there the least and the largest offset stand for all. Unless ``quick``, each
        strided layout has a width of its own too, so that no call in another layout made the settings that a kernel
        keeps for it. On a GPU one wide transposed matrix is among them: another would be compiled for once more.
        """
        shapes = [(3, 129), (4, 1030)] if setting.on_gpu and not setting.quick else [(2, 129)]
        names = _OF_HEADS if setting.has_heads else _NAMES
        of_layouts = [(rows, (columns,) * len(names)) for rows, columns in shapes]
        if not setting.quick:
            # Whole vectors of 16 bytes, which a kernel may take for aligned.
            of_layouts.append((shapes[0][0], tuple(range(32, 32 + 16 * len(names), 16))))
        every = _ALIGNMENT // setting.fmt.itemsize
        offsets = range(1, every) if setting.on_gpu else sorted({1, every - 1})
        is_strided = "strided" in setting.declaration.layouts
        found = []
        for rows, widths in of_layouts if is_strided else ():
            for name, asked in zip(names, widths, strict=True):
                columns = asked if setting.takes(asked) else 1
                layout = strided_layouts(rows, columns)[name]
                found.append(Trial(f"strided/{name}-{columns}", _matrix(rows, columns, layout)))
        if is_strided and setting.on_gpu and not setting.quick and setting.takes(_WIDE[1]):
            found.append(
                Trial(f"strided/transposed-{_WIDE[1]}", _matrix(*_WIDE, Layout(row_stride=1, column_stride=_WIDE[0])))
            )
        for rows, asked in (*shapes, _NARROW):
            columns = asked if setting.takes(asked) else 1
            found += [
                Trial(f"offset/{offset}-{columns}", _matrix(rows, columns, Layout(offset=offset))) for offset in offsets
            ]
            found.append(Trial(f"size-1/one-row-{columns}", _matrix(1, columns, Layout(row_stride=7))))
        found.append(Trial("size-1/one-column", _matrix(3, 1, Layout(row_stride=1, column_stride=5))))
        columns = 129 if setting.takes(129) else 1
        most = min(setting.declaration.dimensions, len(_LEADING) + 1)
        for count in sorted({3, most}) if most > 2 else ():
            higher = _higher(count, columns, is_strided=is_strided)
            found += [Trial(f"dimensions/{count}-{name}", asked) for name, asked in higher.items()]
            # Dimensions of size 1 may be lost together with others.
            alone = _higher(count, 1, is_strided=False)["packed"]
            found.append(Trial(f"dimensions/{count}-one-column", alone))
        return list({trial.label: trial for trial in found}.values())

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Makes one trial: a call on ordinary logits, one on rows with NaN and infinities, and one on logits far apart.

        More calls say why.
        """
        for contents in _CONTENTS:
            outcome = self._tried(subject, trial.parameters, contents)
            if outcome.violations or outcome.fatal:
                break
        return outcome

    def _tried(self, subject: Subject, asked: _Input, contents: str) -> Outcome:
        fmt = subject.setting.fmt
        storage, bits = _filled(asked, subject, contents)
        held = to_tensor(storage, fmt, subject.device)
        with nan_filled():
            called = call(
                subject.variant.function,
                Placed(held.as_strided(asked.shape, asked.strides, asked.offset), held, fmt),
                subject.setting.operation,
            )
        if called.output is None:
            return stopped(called)
        output = called.output.reshape(subject.setting.operation.output_shape(*bits.shape))
        wrong = wrong_values(subject, bits, output, called)
        if not wrong:
            return Outcome()
        packed = call_on(subject, bits, PACKED)
        if packed.output is None:
            return stopped(packed)
        gross = differ_grossly(*(decode(each, format_of(each, fmt)) for each in (output, packed.output)))
        return Outcome(
            violations=_caused(
                wrong, wrong_values(subject, bits, packed.output, packed), _circumstances(asked), gross=gross
            )
        )


def _circumstances(asked: _Input) -> str:
    if len(asked.shape) > 2:
        return f"right as a matrix, wrong in the shape {list(asked.shape)} with strides {asked.strides}"
    return f"right on a contiguous copy, wrong with strides {asked.strides} and offset {asked.offset}"


def _filled(asked: _Input, subject: Subject, contents: str) -> tuple[Bits, Bits]:
    """Returns the storage, NaN where no element lies, and the rows in it as a matrix. Elements may share memory.

    Of "special" contents the first row has a NaN, the second one +inf, and the third is fully masked. Of "far" contents
    the first or the last logit of each row is far above the other logits, and far below zero: a maximum that misses it,
    and one that takes padding with it, give no number. The last row's last logit is as far above them again: a maximum of
    all rows gives no number for the others.
    """
    fmt = subject.setting.fmt
    rows = math.prod(asked.shape[:-1])
    where = asked.offset + np.tensordot(asked.strides, np.indices(asked.shape), axes=1).reshape(rows, -1)
    # A kernel that takes the rows for packed reads beyond the last element of an expanded matrix, and one that takes one
    # stride for all beyond that of other tensors: NaN there too.
    extent = max(int(where.max()) + 1 + where.size, rows * max(asked.strides) + where.shape[1])
    storage = np.full(extent, encode(np.array([np.nan]), fmt)[0], dtype=fmt.storage)
    used = np.unique(where)
    storage[used] = ordinary_rows(1, len(used), fmt, subject.setting.seed)[0]
    if contents == "far":
        storage[used] = moved(storage[used], -2 * FAR, fmt)
        storage[[*where[::2, 0], *where[1::2, -1]]] = encode(np.array([-FAR]), fmt)
        storage[where[-1, -1]] = encode(np.zeros(1), fmt)[0]
    if contents == "special":
        storage[where[0, where.shape[1] // 2]], masked = encode(np.array([np.nan, -np.inf]), fmt)
        if rows > 1:
            storage[where[1, -1]] = encode(np.array([np.inf]), fmt)[0]
        if rows > 2:
            storage[where[2]] = masked
    bits: Bits = storage[where]
    return storage, bits


def _caused(
    strided: Sequence[Violation], packed: Sequence[Violation], circumstances: str, *, gross: bool
) -> tuple[Violation, ...]:
    """Returns the violations that occur with these strides alone."""
    also_packed = {v.kind for v in packed}
    caused = [v for v in strided if v.kind not in also_packed]
    if caused and gross:
        caused = [msgspec.structs.replace(caused[0], kind=FindingKind.WRONG_LAYOUT, share=None)]
    return prefixed(caused, circumstances)


PROBE = Layouts()
