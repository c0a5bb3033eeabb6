"""Two rows per program without a mask over rows: where their count is odd, a row that doesn't exist is read and written.

From experience: the column mask is remembered, the row mask is not.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("out_of_bounds_write",)
SHOWN_BY = ("probe/guard_bands",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    maximum = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        offsets = rows[:, None] * stride_row + cols.to(tl.int64)[None, :] * stride_col
        tile = tl.load(x + offsets, mask=cols[None, :] < n_cols, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(maximum, tl.max(tile, axis=1))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(tile - shift[:, None]), axis=1)
        maximum = larger
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        offsets = rows[:, None] * stride_row + cols.to(tl.int64)[None, :] * stride_col
        tile = tl.load(x + offsets, mask=cols[None, :] < n_cols, other=-float("inf")).to(tl.float32)
        result = tl.exp(tile - maximum[:, None]) / total[:, None]
        tl.store(out + rows[:, None] * n_cols + cols[None, :], result, mask=cols[None, :] < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(triton.cdiv(n_rows, 2),)](out, x, *x.stride(), n_cols, 2, 256)
    return out
