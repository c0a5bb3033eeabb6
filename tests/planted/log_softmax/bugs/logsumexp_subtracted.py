"""Subtracts max + log(sum) as one number: with large logits the logarithm is lost in the addition.

Reports: ml-explore/mlx#4169, pytorch/pytorch#38839, pytorch/pytorch#11752.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "out_of_range")
SHOWN_BY = ("shifted/same-row-9",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def log_softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    maximum = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(maximum, tl.max(tile, axis=0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(tile - shift), axis=0)
        maximum = larger

    logsumexp = maximum + tl.log(total)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n_cols + cols, tile - logsumexp, mask=cols < n_cols)


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        log_softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 1024)
    return out
