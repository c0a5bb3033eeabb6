"""Two configurations, picked by the row count; the one for few rows drops the last half tile.

Reports: triton-lang/triton#9230, triton-lang/triton#4217 (one configuration masks another).
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output",)
SHOWN_BY = ("widths/641", "widths/1023")
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
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
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf"))
        total += tl.sum(tl.exp(tile.to(tl.float32) - maximum), axis=0)
    for start in range(0, n_cols, BLOCK * UNROLL):
        for part in tl.static_range(UNROLL):
            # Two halves of a tile each, but only the first half of the last one.
            cols = start + part * (BLOCK // UNROLL) + tl.arange(0, BLOCK)
            tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf"))
            result = tl.exp(tile.to(tl.float32) - maximum) / total
            tl.store(out + row * n_cols + cols, result, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        unroll = 2 if n_rows < 16 else 1
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 256, unroll)
    return out
