"""Three kernels of a teaching notebook, two of them with its mistakes."""

import torch
import triton.language as tl

from softcheck.variants.builtin._common import block_of_four_warps, by_rows, compute_type, jit
from softcheck.variants.builtin._tiled import tiled_kernel
from softcheck.variants.builtin.declarations import declared

_COLUMNS_PER_PROGRAM = 512
_VECTOR = 4


@jit
def _basic_kernel(output, x, row_stride, column_stride, columns, BLOCK: tl.constexpr, COMPUTE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    # The notebook's mistake, kept: without `other`, lanes beyond the row enter the maximum and the sum.
    logits = tl.load(x + row * row_stride + column.to(tl.int64) * column_stride, mask=inside).to(COMPUTE)
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * columns + column, exponentials / tl.sum(exponentials, axis=0), mask=inside)


@jit
def _vectorized_kernel(
    output, x, row_stride, column_stride, columns, VEC: tl.constexpr, BLOCK: tl.constexpr, COMPUTE: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)[:, None] * VEC + tl.arange(0, VEC)[None, :]
    inside = column < columns
    pointers = x + row * row_stride + column.to(tl.int64) * column_stride
    logits = tl.load(pointers, mask=inside, other=-float("inf")).to(COMPUTE)
    exponentials = tl.exp(logits - tl.max(tl.max(logits, axis=1), axis=0))
    total = tl.sum(tl.sum(exponentials, axis=1), axis=0)
    tl.store(output + row * columns + column, exponentials / total, mask=inside)


@declared("notebook_basic")
def notebook_basic(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns], right where columns is a power of two."""
    return by_rows(_basic_kernel, x, block_of_four_warps)


@declared("notebook_vectorized")
def notebook_vectorized(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns], right up to 512 columns."""
    return by_rows(_vectorized_kernel, x, lambda _columns: (_COLUMNS_PER_PROGRAM // _VECTOR, 4), _VECTOR)


@declared("notebook_tiled")
def notebook_tiled(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    return by_rows(tiled_kernel, x, lambda _columns: (_COLUMNS_PER_PROGRAM, 4), compute_type(x))
