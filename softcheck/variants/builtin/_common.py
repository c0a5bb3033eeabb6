"""Common parts of the built-in kernels: their outputs, the type they compute in, and the launch of one program for each row."""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

jit: Callable[[Callable[..., Any]], Any] = triton.jit
"""``triton.jit``, typed as a decorator. Triton publishes no types."""


def new_output(x: torch.Tensor) -> torch.Tensor:
    """Uninitialised contiguous tensor of the shape, dtype and device of ``x``, whatever the strides of ``x``."""
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def new_row_output(x: torch.Tensor) -> torch.Tensor:
    """Uninitialised tensor of one number for each row of ``x``: float64 for float64 input, else float32."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return torch.empty(x.shape[0], dtype=dtype, device=x.device)


def compute_type(x: torch.Tensor) -> tl.dtype:
    """The type a kernel computes in: float64 for float64 input, else float32."""
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def block_and_warps(columns: int) -> tuple[int, int]:
    """The power of two that holds a row, and the warps of its program."""
    block: int = triton.next_power_of_2(columns)
    return block, 16 if block >= 4096 else 8 if block >= 2048 else 4


def block_of_four_warps(columns: int) -> tuple[int, int]:
    """The power of two that holds a row, and Triton's default of 4 warps."""
    return triton.next_power_of_2(columns), 4


def by_rows(
    kernel: Any,
    x: torch.Tensor,
    tile: Callable[[int], tuple[int, int]],
    *constants: Any,
    output: torch.Tensor | None = None,
    **options: Any,
) -> torch.Tensor:
    """Launches ``kernel(output, x, *strides, columns, *constants, block, type)`` with one program for each row, and returns the output.

    ``tile`` gives the columns of a block and the warps of a program by the columns of a row.
    """
    output = new_output(x) if output is None else output
    if x.numel():
        rows, columns = x.shape
        block, warps = tile(columns)
        arguments = (output, x, *x.stride(), columns, *constants, block, compute_type(x))
        kernel[(rows,)](*arguments, num_warps=warps, **options)
    return output
