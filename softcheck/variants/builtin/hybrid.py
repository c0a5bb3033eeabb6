"""Kernels specialised on the shape: one pass where the row fits a block, three tiled passes where it does not."""

import torch
import triton
import triton.language as tl

from softcheck.variants.builtin._common import by_rows, compute_type, jit, new_output
from softcheck.variants.builtin._tiled import softmax_row_in_tiles, tiled_kernel
from softcheck.variants.builtin.declarations import declared

_SMALLEST_BLOCK = 64
_NO_CAP = 2**20
"""Triton's largest tensor, in elements."""
_TILE = 1024
"""Small enough that everyday widths take several tiles, large enough for eight elements in each of 128 threads."""


@jit
def _hybrid_kernel(output, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, COMPUTE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    if row < ROWS:
        if COLUMNS <= BLOCK:
            column = tl.arange(0, BLOCK)
            inside = column < COLUMNS
            logits = tl.load(x + row * COLUMNS + column, mask=inside, other=-float("inf")).to(COMPUTE)
            exponentials = tl.exp(logits - tl.max(logits, axis=0))
            tl.store(output + row * COLUMNS + column, exponentials / tl.sum(exponentials, axis=0), mask=inside)
        else:
            softmax_row_in_tiles(output + row * COLUMNS, x + row * COLUMNS, 1, COLUMNS, COMPUTE, BLOCK, COMPUTE)


def _block(columns: int, largest: int) -> int:
    block: int = triton.next_power_of_2(columns)
    return min(max(block, _SMALLEST_BLOCK), largest)


def _launch_hybrid(x: torch.Tensor, largest_block: int) -> torch.Tensor:
    output = new_output(x)
    if output.numel():
        rows, columns = x.shape
        _hybrid_kernel[(rows,)](output, x, rows, columns, _block(columns, largest_block), compute_type(x))
    return output


@declared("hybrid")
def hybrid(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns], read as packed rows."""
    return _launch_hybrid(x, _NO_CAP)


@declared("hybrid_tiled")
def hybrid_tiled(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns], read as packed rows."""
    return _launch_hybrid(x, _TILE)


@declared("tiled_float64_sum")
def tiled_float64_sum(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    return by_rows(tiled_kernel, x, lambda columns: (_block(columns, _TILE), 4), tl.float64)
