"""The base-2 logarithm of the sum is brought back with 0.693 for ln 2: every result is off by 2e-4 of the logarithm.

From experience: a constant typed from memory; the exponentials' log2(e) has all its digits.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("widths/3",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.693)


@triton.jit
def log_softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    lanes = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        lanes = tl.maximum(lanes, tile)
    maximum = tl.max(lanes, axis=0)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        sums += tl.exp2((tile - maximum) * LOG2E)
    logarithm = tl.log2(tl.sum(sums, axis=0)) * LN2
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n_cols + cols, tile - maximum - logarithm, mask=cols < n_cols)


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        log_softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 1024)
    return out
