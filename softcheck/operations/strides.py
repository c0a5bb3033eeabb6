"""Strides of tensors: whether elements share memory, and operands that lie as a matrix does. Imports torch when it is called."""

import math
import mmap
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_MAP_NORESERVE = 0x4000
"""Linux's flag for memory that takes nothing until it is written; Python's mmap has no name for it."""
_SPARSE = 2**26
"""Elements between a tensor's first and last from which on the memory between them is left as it comes."""


def shares_memory(x: "torch.Tensor") -> bool:
    """True if elements of a tensor may lie at the same address, as where a stride is 0."""
    reach = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1 and stride < reach:
            return True
        reach += stride * max(0, size - 1)
    return False


def untaken(count: int, dtype: "torch.dtype") -> "torch.Tensor | None":
    """Elements in the host's memory that hold 0, and take none of it until they are written; None but on Linux."""
    import torch

    if not sys.platform.startswith("linux"):
        return None
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    return torch.frombuffer(mmap.mmap(-1, count * dtype.itemsize, flags=flags), dtype=dtype)


def like(x: "torch.Tensor", operand: "torch.Tensor") -> "torch.Tensor":
    """The operand with the matrix's strides and NaN between its elements; packed if elements of the matrix share memory.

    On a CPU memory of gigabytes holds 0 there: to fill it takes as much of the machine's.
    """
    import torch

    if shares_memory(x):
        return operand.contiguous()
    extent = 1 + sum(stride * (size - 1) for stride, size in zip(x.stride(), x.shape, strict=True))
    memory = untaken(extent, operand.dtype) if extent > _SPARSE and operand.device.type == "cpu" else None
    if memory is None:
        memory = torch.full((extent,), math.nan, dtype=operand.dtype, device=operand.device)
    return memory.as_strided(x.shape, x.stride()).copy_(operand)
