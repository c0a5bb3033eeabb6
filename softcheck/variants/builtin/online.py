"""Two passes over a row, the first with one running maximum and one running sum."""

import torch
import triton.language as tl

from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.builtin._common import ALL_DTYPES, compute_type, jit, new_output
from softcheck.variants.builtin._online import running_sum, tile_and_warps
from softcheck.variants.declaration import Traffic, variant


@jit
def _online_kernel(
    output: tl.tensor,
    x: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    columns: tl.tensor,
    BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    maximum, total = running_sum(x + row * row_stride, column_stride, columns, BLOCK, COMPUTE)
    lane = tl.arange(0, BLOCK)

    for start in range(0, columns, BLOCK):
        column = start + lane
        pointers = x + row * row_stride + column.to(tl.int64) * column_stride
        logits = tl.load(pointers, mask=column < columns, other=-float("inf")).to(COMPUTE)
        tl.store(output + row * columns + column, tl.exp(logits - maximum) / total, mask=column < columns)


@variant(
    dtypes=ALL_DTYPES,
    batch_invariant=True,
    description="two passes in tiles of up to 4096, one running maximum and sum per row",
    provenance="Milakov and Gimelshein, Online normalizer calculation for softmax, 2018",
    traffic=Traffic(reads=2, writes=1),
    arithmetic=Arithmetic(rescales=True),
)
def online(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    output = new_output(x)
    if output.numel():
        rows, columns = x.shape
        block, warps = tile_and_warps(columns)
        _online_kernel[(rows,)](output, x, *x.stride(), columns, block, compute_type(x), num_warps=warps)
    return output
