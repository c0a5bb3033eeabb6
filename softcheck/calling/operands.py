"""Tensors that a call takes beside the matrix, such as masks and targets, which it must leave as they are; and its whole answers."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any

from softcheck.contract import FindingKind, Violation

if TYPE_CHECKING:
    import torch

_MOST = 2**26
"""Elements of the largest operand of which a copy is kept."""


class _Lent(threading.local):
    def __init__(self) -> None:
        self.are_held = True
        self.tensors: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        """Each operand of this thread's call by name, with a copy of it."""


_lent = _Lent()


def forget() -> None:
    """Begins a call, which has no operands yet."""
    _lent.tensors.clear()


def lend(values: Mapping[str, Any]) -> None:
    """Keeps copies of the tensors among the values of a call."""
    found = {name: value for name, value in values.items() if hasattr(value, "data_ptr") and value.numel() <= _MOST}
    _lent.tensors = {name: (value, value.clone()) for name, value in found.items()}


@contextmanager
def held_by_nobody() -> Iterator[None]:
    """Gives calls within views of their operands that nobody else holds, as ``f(y, grads[0])`` does."""
    _lent.are_held = False
    try:
        yield
    finally:
        _lent.are_held = True


def are_held() -> bool:
    """False if each call gets views that nobody else holds."""
    return _lent.are_held


def once(tensor: "torch.Tensor") -> tuple[slice, ...]:
    """Returns the elements of a tensor that share no memory, to write each once: of an expanded dimension the first."""
    return tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())


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


_kept: ContextVar[list[Any] | None] = ContextVar("kept", default=None)


@contextmanager
def kept_answers() -> Iterator[list[Any]]:
    """Keeps what functions return to the calls within, in a list, until the end of the block."""
    found: list[Any] = []
    token = _kept.set(found)
    try:
        yield found
    finally:
        _kept.reset(token)


def noted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function; one that keeps what the function returns, if that is asked for."""
    found = _kept.get()
    if found is None:
        return function

    @wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        found.append(function(*args, **kwargs))
        return found[-1]

    return noting
