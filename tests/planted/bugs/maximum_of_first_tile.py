"""The maximum is taken over the first tile alone: a later, larger logit overflows exp.

From experience: the loop over tiles was added to the sum and to the store, and forgotten in the maximum.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("huge/last-column-max-513", "sorted/ascending-1025")
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    cols = tl.arange(0, BLOCK)
    tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf"))
    maximum = tl.max(tile.to(tl.float32), axis=0)
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(tile - maximum), axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n_cols + cols, tl.exp(tile - maximum) / total, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 256)
    return out
