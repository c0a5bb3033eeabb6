"""Matrices without elements: no rows, no columns, and empty slices with strides and offset of a larger matrix.

softmax of an empty tensor is an empty tensor of the same shape and dtype. Instead, a launch over zero programs, a tile
width computed from zero columns, or a maximum over nothing raises an exception, and a kernel that stores its last tile
unmasked writes beside the tensor.
"""

from collections.abc import Iterator

import torch

from softcheck.calling.call import TORCH_DTYPES, Placed
from softcheck.probes.base import Setting, Subject, TrialTable
from softcheck.probes.helpers import call_placed, prefixed
from softcheck.probes.outcome import Outcome
from softcheck.probes.space.backwards import ask_gradients

_ROWS, _COLUMNS = 6, 8
"""Shape of the larger matrix that slices are taken from. It holds NaN, before and after the call."""

_PACKED: dict[str, tuple[int, int]] = {"0x5": (0, 5), "5x0": (5, 0), "0x0": (0, 0)}

_Index = tuple[slice, slice]
_SLICES: dict[str, tuple[_Index, bool]] = {
    "no-rows-inside": ((slice(2, 2), slice(None)), False),
    "no-rows-at-the-end": ((slice(_ROWS, None), slice(None)), False),
    "no-columns-inside": ((slice(None), slice(3, 3)), False),
    "no-columns-of-every-second-row": ((slice(None, None, 2), slice(_COLUMNS, None)), False),
    "neither": ((slice(2, 2), slice(3, 3)), False),
    "no-rows-transposed": ((slice(None), slice(3, 3)), True),
    "no-columns-transposed": ((slice(2, 2), slice(None)), True),
}
"""Slices by label: the rows and columns taken from the larger matrix, and True if the slice is then transposed."""

_WITH_COLUMNS = frozenset({"0x5", "no-rows-inside", "no-rows-at-the-end", "no-rows-transposed"})
"""Those without rows alone. A row without columns has no target and no one answer that everybody means."""


def _empty(setting: Setting) -> Iterator[tuple[str, str]]:
    """Yields the same trials wherever empty inputs are declared: calls without elements take no time."""
    for label in (*_PACKED, *_SLICES) if setting.declaration.empty else ():
        if label in _WITH_COLUMNS or setting.operation.answers_elements:
            yield label, label


def _called(subject: Subject, label: str) -> Iterator[Outcome]:
    """Checks exceptions, shape, dtype, and the memory around the matrix; then the gradient, where the answer carries one."""
    called = call_placed(subject, _placed(subject, label))
    if called.violations or called.fatal:
        yield Outcome(violations=prefixed(called.violations, label), fatal=called.fatal)
    placed = _placed(subject, label)
    if subject.setting.has_heads or subject.setting.operation.gradient is None:
        return
    x = placed.view.requires_grad_()
    output = call_placed(subject, placed).output
    if output is None or not output.requires_grad:
        return

    def ask() -> None:
        torch.autograd.grad(output, x, torch.zeros_like(output), allow_unused=True)

    if (raised := ask_gradients(subject, ask, is_promised=True)) is not None:
        yield Outcome(violations=prefixed(raised.faults, label), fatal=raised.fatal)


def _placed(subject: Subject, label: str) -> Placed:
    fmt = subject.setting.fmt
    storage = torch.full((_ROWS * _COLUMNS,), float("nan"), dtype=TORCH_DTYPES[fmt.name], device=subject.device)
    if label in _PACKED:
        rows, columns = _PACKED[label]
        storage = storage[:0].clone()
        return Placed(storage.view(rows, columns), storage, fmt)
    (rows_taken, columns_taken), transposed = _SLICES[label]
    view = storage.view(_ROWS, _COLUMNS)[rows_taken, columns_taken]
    return Placed(view.t() if transposed else view, storage, fmt)


PROBE = TrialTable(_empty, _called)
