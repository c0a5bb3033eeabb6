"""The first pass of online softmax: one running maximum and one running sum over the tiles of a row."""

import triton
import triton.language as tl

from softcheck.variants.builtin._common import jit

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
