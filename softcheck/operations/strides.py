"""Strides of tensors: whether elements share memory, and operands that lie as a matrix does. Imports torch when it is called."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def shares_memory(x: "torch.Tensor") -> bool:
    """True if elements of a tensor may lie at the same address, as where a stride is 0."""
    reach = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1 and stride < reach:
            return True
        reach += stride * max(0, size - 1)
    return False


def like(x: "torch.Tensor", operand: "torch.Tensor") -> "torch.Tensor":
    """The operand with the matrix's strides and NaN between its elements; packed if elements of the matrix share memory."""
    import torch

    if shares_memory(x):
        return operand.contiguous()
    extent = 1 + sum(stride * (size - 1) for stride, size in zip(x.stride(), x.shape, strict=True))
    memory = torch.full((extent,), math.nan, dtype=operand.dtype, device=operand.device)
    return memory.as_strided(x.shape, x.stride()).copy_(operand)
