"""Two passes over a row, the first with one running maximum and one running sum."""

import torch
import triton.language as tl

from softcheck.variants.builtin._common import by_rows, jit
from softcheck.variants.builtin._online import running_sum, tile_and_warps
from softcheck.variants.builtin.declarations import declared


@jit
def _online_kernel(output, x, row_stride, column_stride, columns, BLOCK: tl.constexpr, COMPUTE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    maximum, total = running_sum(x + row * row_stride, column_stride, columns, BLOCK, COMPUTE)
    lane = tl.arange(0, BLOCK)

    for start in range(0, columns, BLOCK):
        column = start + lane
        pointers = x + row * row_stride + column.to(tl.int64) * column_stride
        logits = tl.load(pointers, mask=column < columns, other=-float("inf")).to(COMPUTE)
        tl.store(output + row * columns + column, tl.exp(logits - maximum) / total, mask=column < columns)


@declared("online")
def online(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    return by_rows(_online_kernel, x, tile_and_warps)
