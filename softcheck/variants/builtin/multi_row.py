"""Several short rows per program, as one two-dimensional tile."""

import torch
import triton
import triton.language as tl

from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.builtin._common import ALL_DTYPES, compute_type, jit, new_output
from softcheck.variants.declaration import Traffic, variant

_TILE_ELEMENTS = 4096
_MOST_ROWS = 128


@jit
def _multi_row_kernel(
    output: tl.tensor,
    x: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    pointers = x + row * row_stride + column.to(tl.int64) * column_stride
    logits = tl.load(pointers, mask=inside, other=-float("inf")).to(COMPUTE)
    exponentials = tl.exp(logits - tl.max(logits, axis=1)[:, None])
    probabilities = exponentials / tl.sum(exponentials, axis=1)[:, None]
    tl.store(output + row * columns + column, probabilities, mask=inside)


@variant(
    dtypes=ALL_DTYPES,
    # The widest row that 16 warps hold in registers, 64 32-bit words to a thread.
    max_columns={"float16": 32768, "bfloat16": 32768, "float32": 32768, "float64": 16384},
    batch_invariant=True,
    description="tiles of several rows by the next power of two of columns, 4096 elements; one row where it is wider",
    provenance="common practice for short rows",
    arithmetic=Arithmetic(),
    traffic=Traffic(reads=1, writes=1),
)
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
