"""Several short rows per program, as one two-dimensional tile."""

import torch
import triton
import triton.language as tl

from softcheck.variants.builtin._common import compute_type, jit, new_output
from softcheck.variants.builtin.declarations import declared

_TILE_ELEMENTS = 4096
_MOST_ROWS = 128


@jit
def _multi_row_kernel(
    output, x, row_stride, column_stride, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr, COMPUTE: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    pointers = x + row * row_stride + column.to(tl.int64) * column_stride
    logits = tl.load(pointers, mask=inside, other=-float("inf")).to(COMPUTE)
    exponentials = tl.exp(logits - tl.max(logits, axis=1)[:, None])
    probabilities = exponentials / tl.sum(exponentials, axis=1)[:, None]
    tl.store(output + row * columns + column, probabilities, mask=inside)


@declared("multi_row")
def multi_row(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    output = new_output(x)
    if output.numel():
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        tile_rows = min(max(_TILE_ELEMENTS // block, 1), _MOST_ROWS)
        warps = 16 if block >= 16384 else 8 if block >= 8192 else 4
        grid = (triton.cdiv(rows, tile_rows),)
        strides = x.stride()
        _multi_row_kernel[grid](output, x, *strides, rows, columns, tile_rows, block, compute_type(x), num_warps=warps)
    return output
