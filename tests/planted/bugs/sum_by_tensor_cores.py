"""Sums the exponentials with ``tl.dot`` against ones: TF32 keeps 10 bits of each.

From experience: reductions moved to the tensor cores.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation",)
SHOWN_BY = ("normal/scale-3-129", "normal/scale-3-4096")
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    lanes = tl.arange(0, BLOCK)[None, :]
    x += rows * stride_row
    maximum = tl.full([ROWS], -float("inf"), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + lanes
        mask = (rows < n_rows) & (cols < n_cols)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
        maximum = tl.maximum(maximum, tl.max(tile, axis=1))
    ones = tl.full([BLOCK, 16], 1.0, tl.float32)
    total = tl.zeros([ROWS, 16], tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + lanes
        mask = (rows < n_rows) & (cols < n_cols)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
        total = tl.dot(tl.exp(tile - maximum[:, None]), ones, total, input_precision="tf32")
    # All sixteen columns are equal.
    inverse = 1.0 / tl.max(total, axis=1)
    for start in range(0, n_cols, BLOCK):
        cols = start + lanes
        mask = (rows < n_rows) & (cols < n_cols)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
        tl.store(out + rows * n_cols + cols, tl.exp(tile - maximum[:, None]) * inverse[:, None], mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(triton.cdiv(n_rows, 16),)](out, x, *x.stride(), n_rows, n_cols, 16, 64)
    return out
