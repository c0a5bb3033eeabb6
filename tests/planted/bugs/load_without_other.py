"""The masked load has no ``other``: padded lanes hold whatever the compiler leaves there, often 0, and are summed.

Reports: flagos-ai/FlagGems#3716, flagos-ai/FlagGems#6251.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation", "nan_mismatch")
SHOWN_BY = ("widths/1025", "widths/1023")
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
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols)
        total += tl.sum(tl.exp(tile.to(tl.float32) - maximum), axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols)
        tl.store(out + row * n_cols + cols, tl.exp(tile.to(tl.float32) - maximum) / total, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 512)
    return out
