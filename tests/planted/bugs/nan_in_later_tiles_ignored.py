"""NaN is looked for in the first tile only; in later tiles it is replaced by -inf.

From experience.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("probe/regimes",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def tiled_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    maximum = -float("inf")
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK).to(tl.int64)
        tile = tl.load(x + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tile = tl.where((start == 0) | (tile >= -float("inf")), tile, -float("inf"))
        maximum = tl.maximum(maximum, tl.max(tile, axis=0), propagate_nan=tl.PropagateNan.ALL)
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK).to(tl.int64)
        tile = tl.load(x + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tile = tl.where((start == 0) | (tile >= -float("inf")), tile, -float("inf"))
        total += tl.sum(tl.exp(tile - maximum), axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK).to(tl.int64)
        tile = tl.load(x + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tile = tl.where((start == 0) | (tile >= -float("inf")), tile, -float("inf"))
        tl.store(out + row * n_cols + cols, tl.exp(tile - maximum) / total, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    tiled_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 128)
    return out
