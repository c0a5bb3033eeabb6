"""One program per row, the whole row in one block: of the logits, and of their multiples by log2(e), as in many attention kernels."""

import torch
import triton.language as tl

from softcheck.variants.builtin._common import block_and_warps, block_of_four_warps, by_rows, jit
from softcheck.variants.builtin.declarations import declared


@jit
def _one_block_kernel(output, x, row_stride, column_stride, columns, BLOCK: tl.constexpr, COMPUTE: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    # 32-bit offsets, as in the source: they wrap where a row begins 2^31 elements or more into the storage.
    logits = tl.load(x + row * row_stride + column * column_stride, mask=inside, other=-float("inf")).to(COMPUTE)
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * columns + column, exponentials / tl.sum(exponentials, axis=0), mask=inside)


@declared("one_block")
def one_block(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    return by_rows(_one_block_kernel, x, block_and_warps)


@declared("one_block_default_warps")
def one_block_default_warps(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns], on the device of ``x``."""
    on_device = x.cuda() if x.device.type == "cpu" and torch.cuda.is_available() else x
    return by_rows(_one_block_kernel, on_device, block_of_four_warps).to(x.device)


_LOG2_E = tl.constexpr(1.4426950408889634)


@jit
def _exp2_prescaled_kernel(output, x, row_stride, column_stride, columns, BLOCK: tl.constexpr, COMPUTE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    pointers = x + row * row_stride + column.to(tl.int64) * column_stride
    scaled = tl.load(pointers, mask=inside, other=-float("inf")).to(COMPUTE) * _LOG2_E
    powers = tl.exp2(scaled - tl.max(scaled, axis=0))
    tl.store(output + row * columns + column, powers / tl.sum(powers, axis=0), mask=inside)


@declared("exp2_prescaled")
def exp2_prescaled(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    # Fusion is asked for because Triton 3.10 changes its default, and the declared defects depend on it.
    return by_rows(_exp2_prescaled_kernel, x, block_and_warps, enable_fp_fusion=True)
