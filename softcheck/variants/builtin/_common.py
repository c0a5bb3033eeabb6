"""Common parts of the built-in kernels: their output tensor, and the type they compute in."""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

jit: Callable[[Callable[..., Any]], Any] = triton.jit
"""``triton.jit``, typed as a decorator. Triton publishes no types."""

ALL_DTYPES = ("float16", "bfloat16", "float32", "float64")

NARROW_DTYPES = ("float16", "bfloat16", "float32")

SIXTEEN_BIT_DTYPES = ("float16", "bfloat16")

MAX_BLOCK = 2**17
"""Widest row, in elements, that is promised for a block of 16 warps: each thread holds 256 values and spills. A row
twice as wide compiles for ten seconds and more."""

MAX_BLOCK_OF_FOUR_WARPS = 2**15
"""Widest row for Triton's default of 4 warps. A row four times as wide compiles for over a minute."""


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
