"""Tensors that a call takes beside the matrix, such as masks and targets, which it must leave as they are."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from softcheck.contract import FindingKind, Violation

if TYPE_CHECKING:
    import torch

_MOST = 2**26
"""Elements of the largest operand of which a copy is kept."""

Place = Callable[[str, "torch.Tensor"], "torch.Tensor"]
"""Returns the tensor that a call gets in place of an operand of this name, with the same values and strides."""


class _Lent(threading.local):
    def __init__(self) -> None:
        self.place: Place | None = None
        """Says where the operands of calls lie; anywhere if None."""
        self.holds = True
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


Kept = dict[tuple[Any, ...], "torch.Tensor"]
"""Operands of earlier calls by name, shape, strides and dtype."""


@contextmanager
def _while(name: str, value: object) -> Iterator[None]:
    before = getattr(_lent, name)
    setattr(_lent, name, value)
    try:
        yield
    finally:
        setattr(_lent, name, before)


def placing(place: Place) -> AbstractContextManager[None]:
    """Gives calls within their operands where ``place`` says, and what stands in the matrix's place as "x"."""
    return _while("place", place)


def keeping(kept: Kept, *, rewrites: bool) -> AbstractContextManager[None]:
    """Keeps the operands of calls within; if it ``rewrites``, calls get those that are kept, with new values, where they have that shape."""
    return placing(partial(_in_kept, kept, rewrites))


def held_by_nobody() -> AbstractContextManager[None]:
    """Gives calls within views of their operands that nobody else holds, as ``f(y, grads[0])`` does."""
    return _while("holds", False)


def timed() -> AbstractContextManager[None]:
    """Keeps no copies, which take time, of the operands of calls within."""
    return _while("is_timed", True)


def are_held() -> bool:
    """False if each call gets views that nobody else holds."""
    return _lent.holds


def placed(name: str, value: Any) -> Any:
    """Returns an operand of a call where ``placing`` asks it to lie; what is no tensor is returned as it is."""
    if _lent.place is None or not hasattr(value, "data_ptr"):
        return value
    return _lent.place(name, value)


def once(tensor: "torch.Tensor") -> tuple[slice, ...]:
    """Returns the elements of a tensor that share no memory, to write each once: of an expanded dimension the first."""
    return tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())


def _in_kept(kept: Kept, rewrites: bool, name: str, value: "torch.Tensor") -> "torch.Tensor":  # noqa: FBT001 - a Place
    key = name, tuple(value.shape), value.stride(), value.dtype
    found = kept.setdefault(key, value)
    if found is value or not rewrites or 0 in value.stride() or found.is_inference():
        kept[key] = value
        return value
    # Through ``data``, which leaves the tensor's version as it is: so do kernels that write to it.
    found.data.copy_(value)
    return found


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
