"""Strides of tensors: whether elements share memory, tensors that lie as another does, and views. Imports torch when it is called."""

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

_BETWEEN = 2**20
"""Elements of memory between a tensor's own that are copied; of more, those at its beginning, since they may be 2^31."""


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


def whole(x: "torch.Tensor") -> "torch.Tensor":
    """Returns all of a tensor's storage, [elements]."""
    return x.new_empty(0).set_(x.untyped_storage())


def once(tensor: "torch.Tensor") -> tuple[slice, ...]:
    """Returns the elements of a tensor that share no memory, to write each once: of an expanded dimension the first."""
    return tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())


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
