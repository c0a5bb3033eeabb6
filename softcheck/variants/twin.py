"""Tensors that stand in an input's place in a call: a twin that lies as it does, and a copy to be written to. Imports torch when it is needed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from softcheck.calling import operands
from softcheck.operations.strides import shares_memory

if TYPE_CHECKING:
    import torch

_BETWEEN = 2**20
"""Elements of memory between a tensor's own that are copied; of more, those at its beginning, since they may be 2^31."""


def lying_like(x: "torch.Tensor", values: "torch.Tensor") -> "torch.Tensor":
    """Returns values [rows, columns] as a tensor lies, with a copy of what is between its elements; as they are if it requires a gradient."""
    import torch

    if not _has_twin(x):
        return values
    whole, first = _whole(x), int(x.storage_offset())
    # Not torch.empty, which would fill the rest where it is told to: gigabytes.
    storage = torch.UntypedStorage(whole.nbytes, device=x.device)  # type: ignore[no-untyped-call]
    copy = torch.empty(0, dtype=x.dtype, device=x.device).set_(storage)
    between = slice(None) if whole.numel() <= x.numel() + _BETWEEN else slice(first, first + x.numel() + _BETWEEN)
    copy[between].copy_(whole[between])
    view = copy.as_strided(x.shape, x.stride(), first)
    once = operands.once(x)
    view[once].copy_(values[once])
    return view


@contextmanager
def written_back(x: "torch.Tensor", twin: "torch.Tensor") -> Iterator[None]:
    """Changes in a tensor's memory, after the block, what the block has changed in its twin's, so that it shows there.

    What happens to be the tensor's own value is written with other bits, since it was a change all the same.
    """
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    if not _has_twin(x):
        yield
        return
    # Whoever records the operations of a call means the function's.
    with _disable_current_modes():
        whole, own, once = _whole(twin), _whole(x), operands.once(x)
        is_dense = whole.numel() == own.numel() <= x.numel() + _BETWEEN
        integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
        after, own = (each.view(integers) for each in ((whole, own) if is_dense else (twin[once], x[once])))
        before = after.clone()
    try:
        yield
    finally:
        with _disable_current_modes():
            own.copy_(torch.where(after != before, torch.where(after == own, ~after, after), own))


def _has_twin(x: "torch.Tensor") -> bool:
    import torch

    return not x.requires_grad and type(x) is torch.Tensor and x.numel() > 0


def _whole(x: "torch.Tensor") -> "torch.Tensor":
    """All of a tensor's storage."""
    import torch

    return torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())


def copied(x: "torch.Tensor") -> "torch.Tensor":
    """A copy with the input's strides, packed if elements of the input share memory.

    It is part of the input's graph. A call that returns the copy itself needs one of ``x.detach()``: autograd would take what a
    kernel writes there for the copied values.
    """
    import torch

    if shares_memory(x):
        return x.clone(memory_format=torch.contiguous_format)
    copy: torch.Tensor = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(x)
    return copy


def overwriting(call: "Callable[[torch.Tensor], Any]", x: "torch.Tensor") -> Any:
    """Calls on a copy of the input, which the call may overwrite with the gradient for an output gradient of 1, and returns the answer.

    If the input asks for a gradient and the answer carries none, the answer is given one: the output gradient times what the call
    left in the copy.
    """
    import torch

    copy = copied(x)
    answer: Any = call(copy)
    if not copy.requires_grad or not isinstance(answer, torch.Tensor) or answer.requires_grad:
        return answer

    class WithGradient(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, _x: torch.Tensor) -> Any:
            return answer.clone()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(_ctx: Any, grad: torch.Tensor) -> Any:
            return (grad * copy.detach()).to(x.dtype)

    found: torch.Tensor = WithGradient.apply(x)  # type: ignore[no-untyped-call]
    return found


def with_dims(x: "torch.Tensor", dims: int, kept: int = 1) -> "torch.Tensor":
    """Returns a view of the same elements with so many dimensions: the largest but those ``kept`` is split, or leading ones are merged."""
    while x.dim() > dims:
        x = x.flatten(0, 1)
    while x.dim() < dims:
        leading, row = x.shape[:-kept] or (1,), x.shape[-kept:]
        x = x.view(*leading, *row)
        rows = max(leading)
        outer = next((n for n in (2, 3, 5, 7) if rows % n == 0 and rows > n), 1)
        place = leading.index(rows) if outer > 1 else 0
        x = x.view(*leading[:place], outer, leading[place] // outer, *x.shape[place + 1 :])
    return x
