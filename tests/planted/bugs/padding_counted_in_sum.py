"""The last tile's padding is masked in the maximum but adds exp(0) = 1 for every padded lane to the sum.

Reports: verl-project/verl#2899, verl-project/verl#5349 (129920 columns in tiles of 256 and 1024).
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation",)
SHOWN_BY = ("widths/641", "widths/1023")
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    maximum = -float("inf")
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf"))
        maximum = tl.maximum(maximum, tl.max(tile.to(tl.float32), axis=0))
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
        shifted = tl.where(mask, tile - maximum, 0.0)
        total += tl.sum(tl.exp(shifted), axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n_cols + cols, tl.exp(tile - maximum) / total, mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 256)
    return out
