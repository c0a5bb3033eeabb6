"""The running sum is not rescaled when the running maximum grows.

From experience: the classic slip in an online softmax (Milakov and Gimelshein, 2018).
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation",)
SHOWN_BY = ("sorted/ascending-129", "ramp/long-4097")
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    maximum = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        maximum = tl.maximum(maximum, tl.max(tile, axis=0))
        shift = tl.where(maximum == -float("inf"), 0.0, maximum)
        total += tl.sum(tl.exp(tile - shift), axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n_cols + cols, tl.exp(tile - maximum) / total, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 64)
    return out
