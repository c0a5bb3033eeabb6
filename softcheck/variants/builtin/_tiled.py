"""The three-pass algorithm over tiles of a row: maximum, sum of exponentials, normalise."""

import triton.language as tl

from softcheck.variants.builtin._common import jit


@jit
def softmax_row_in_tiles(
    output_row, input_row, column_stride, columns, ACCUMULATE: tl.constexpr, BLOCK: tl.constexpr, COMPUTE: tl.constexpr
):
    """Softmax of one row. Each lane keeps its own maximum and its own sum (in ACCUMULATE) until a pass ends."""
    lane = tl.arange(0, BLOCK)
    largest = tl.full([BLOCK], -float("inf"), COMPUTE)
    for start in range(0, columns, BLOCK):
        column = start + lane
        pointers = input_row + column.to(tl.int64) * column_stride
        logits = tl.load(pointers, mask=column < columns, other=-float("inf")).to(COMPUTE)
        largest = tl.maximum(largest, logits)
    maximum = tl.max(largest, axis=0)

    partial = tl.zeros([BLOCK], ACCUMULATE)
    for start in range(0, columns, BLOCK):
        column = start + lane
        pointers = input_row + column.to(tl.int64) * column_stride
        logits = tl.load(pointers, mask=column < columns, other=-float("inf")).to(COMPUTE)
        partial += tl.exp(logits - maximum).to(ACCUMULATE)
    total = tl.sum(partial, axis=0).to(COMPUTE)

    for start in range(0, columns, BLOCK):
        column = start + lane
        pointers = input_row + column.to(tl.int64) * column_stride
        logits = tl.load(pointers, mask=column < columns, other=-float("inf")).to(COMPUTE)
        tl.store(output_row + column, tl.exp(logits - maximum) / total, mask=column < columns)


@jit
def tiled_kernel(
    output, x, row_stride, column_stride, columns, ACCUMULATE: tl.constexpr, BLOCK: tl.constexpr, COMPUTE: tl.constexpr
):
    """One program per row, of any strides, into packed rows."""
    row = tl.program_id(0).to(tl.int64)
    softmax_row_in_tiles(
        output + row * columns, x + row * row_stride, column_stride, columns, ACCUMULATE, BLOCK, COMPUTE
    )
