"""The load's mask is ``cols <= n_cols``: one element beyond the row, the next row's first, takes part in the sum.

From experience; where the width is a power of two the block has no lane for it, so tests with such widths pass.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("row_dependence", "out_of_bounds_read")
SHOWN_BY = ("probe/neighbours", "probe/guard_bands")
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=cols <= n_cols, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=cols < n_cols)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
