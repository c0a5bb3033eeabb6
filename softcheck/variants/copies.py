"""Copies of an input for calls that write to it. Imports torch when it is called."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from softcheck.operations.strides import shares_memory

if TYPE_CHECKING:
    import torch


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
