"""Single rows take a path of their own, whose maximum is that of the first tile only.

From experience.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("probe/regimes/single-rows",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def one_row_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    maximum = -float("inf")
    for start in range(0, BLOCK, BLOCK):
        cols = start + tl.arange(0, BLOCK).to(tl.int64)
        tile = tl.load(x + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        maximum = tl.maximum(maximum, tl.max(tile, axis=0), propagate_nan=tl.PropagateNan.ALL)
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK).to(tl.int64)
        tile = tl.load(x + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(tile - maximum), axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK).to(tl.int64)
        tile = tl.load(x + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n_cols + cols, tl.exp(tile - maximum) / total, mask=cols < n_cols)


@triton.jit
def whole_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    weights = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, weights / tl.sum(weights, axis=0), mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    if n_rows == 1:
        one_row_kernel[(1,)](out, x, *x.stride(), n_cols, 256)
    else:
        whole_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
