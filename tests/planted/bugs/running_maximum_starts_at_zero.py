"""The running maximum starts at 0.0: where every logit is below -88 all exponentials underflow, and 0 / 0 is NaN.

From experience; the condition is that of unslothai/unsloth#10616 (rows far below zero).
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("negative/minus-100-129",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    maximum = 0.0
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(maximum, tl.max(tile, axis=0))
        total = total * tl.exp(maximum - larger) + tl.sum(tl.exp(tile - larger), axis=0)
        maximum = larger
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n_cols + cols, tl.exp(tile - maximum) / total, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 512)
    return out
