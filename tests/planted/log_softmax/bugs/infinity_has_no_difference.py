"""A logit equal to the maximum has difference 0 unseen: [0, +inf] gives [-inf, 0] and a masked row -log N, not NaN.

Reports: pytorch/pytorch#161150, tenstorrent/tt-metal#56056, NVIDIA/apex#1390.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("special/inf-and-0",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def log_softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    maximum = -float("inf")
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        maximum = tl.maximum(maximum, tl.max(tile, axis=0))
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        weights = tl.exp(tl.where(tile == maximum, 0.0, tile - maximum))
        total += tl.sum(tl.where(cols < n_cols, weights, 0.0), axis=0)
    logarithm = tl.log(total)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        difference = tl.where(tile == maximum, 0.0, tile - maximum)
        tl.store(out + row * n_cols + cols, difference - logarithm, mask=cols < n_cols)


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        log_softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 1024)
    return out
