"""Two passes over a row, the first with one running maximum and one running sum, as online softmax has them."""

import torch
import triton
import triton.language as tl

from softcheck.variants.builtin._common import by_rows, jit
from softcheck.variants.builtin.declarations import declared

_LARGEST_TILE = 4096


@jit
def running_sum(input_row, column_stride, columns, BLOCK: tl.constexpr, COMPUTE: tl.constexpr):
    """The maximum of a row, and the sum of its exponentials below it."""
    lane = tl.arange(0, BLOCK)
    maximum = tl.full([], -float("inf"), COMPUTE)
    total = tl.zeros([], COMPUTE)
    for start in range(0, columns, BLOCK):
        column = start + lane
        pointers = input_row + column.to(tl.int64) * column_stride
        logits = tl.load(pointers, mask=column < columns, other=-float("inf")).to(COMPUTE)
        larger = tl.maximum(maximum, tl.max(logits, axis=0))
        # While every logit so far is -inf, any finite shift gives exp(-inf) = 0 where -inf - -inf would give NaN.
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(logits - shift), axis=0)
        maximum = larger
    return maximum, total


def tile_and_warps(columns: int) -> tuple[int, int]:
    """Columns of a tile and warps of a program: half the row, so that short rows rescale too."""
    block = min(max(triton.next_power_of_2(columns) // 2, 16), _LARGEST_TILE)
    return block, 8 if block >= 2048 else 4


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
