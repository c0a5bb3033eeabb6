"""Tensors that stand in an input's place in a call: values that lie as it does, and a copy to be written to. Imports torch when it is needed."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from softcheck.calling.operands import once, whole
from softcheck.operations.strides import shares_memory

if TYPE_CHECKING:
    import torch

_BETWEEN = 2**20
"""Elements of memory between a tensor's own that are copied; of more, those at its beginning, since they may be 2^31."""


def lying_like(x: "torch.Tensor", values: "torch.Tensor") -> "torch.Tensor":
    """Returns values [rows, columns] as a tensor lies, with a copy of what is between its elements; as they are if it requires a gradient."""
    import torch

    if x.requires_grad or type(x) is not torch.Tensor or not x.numel():
        return values
    all_of_it, first = whole(x), int(x.storage_offset())
    # Not torch.empty, which would fill the rest where it is told to: gigabytes.
    storage = torch.UntypedStorage(all_of_it.nbytes, device=x.device)  # type: ignore[no-untyped-call]
    copy = torch.empty(0, dtype=x.dtype, device=x.device).set_(storage)
    is_dense = all_of_it.numel() <= x.numel() + _BETWEEN
    between = slice(None) if is_dense else slice(first, first + x.numel() + _BETWEEN)
    copy[between].copy_(all_of_it[between])
    view, written = copy.as_strided(x.shape, x.stride(), first), once(x)
    view[written].copy_(values[written])
    return view


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
