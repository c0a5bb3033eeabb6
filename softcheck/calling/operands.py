"""Tensors that a call takes beside the matrix, such as masks and targets, which it must leave as they are."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from softcheck.contract import FindingKind, Violation

if TYPE_CHECKING:
    import torch

_MOST = 2**26
"""Elements of the largest operand of which a copy is kept."""


class _Lent(threading.local):
    def __init__(self) -> None:
        self.tensors: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        """Each operand of this thread's call by name, with a copy of it."""
        self.is_timed = False


_lent = _Lent()


def forget() -> None:
    """Begins a call, which has no operands yet."""
    _lent.tensors.clear()


def lend(values: Mapping[str, Any]) -> None:
    """Keeps copies of the tensors among the values of a call, unless it is timed."""
    if _lent.is_timed:
        return
    found = {name: value for name, value in values.items() if hasattr(value, "data_ptr") and value.numel() <= _MOST}
    _lent.tensors = {name: (value, value.clone()) for name, value in found.items()}


@contextmanager
def timed() -> Iterator[None]:
    """Keeps no copies, which take time, of the operands of calls within."""
    _lent.is_timed = True
    try:
        yield
    finally:
        _lent.is_timed = False


def is_timed() -> bool:
    """True while a call is timed in this thread."""
    return _lent.is_timed


def changed() -> tuple[Violation, ...]:
    """Returns violations for operands that are not what they were when the call began; waits for the device."""
    return tuple(
        Violation(
            FindingKind.INPUT_MODIFIED,
            f"{int(differs.sum())} elements of the caller's {name} changed; expected the call to leave it alone",
        )
        for name, (value, before) in _lent.tensors.items()
        if (differs := _differs(value, before)).any()
    )


def _differs(value: "torch.Tensor", before: "torch.Tensor") -> "torch.Tensor":
    """True where two tensors hold other values; two NaNs are alike, as in the output of a row that has none."""
    return (value != before) & ~((value != value) & (before != before))  # noqa: PLR0124 - true of a NaN, in any dtype
