"""The rescale is skipped while the maximum grows by less than a threshold, but the final pass uses the new maximum.

Report: Dao-AILab/flash-attention#2067 (accuracy lost where the rescale is skipped below a threshold).
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation",)
SHOWN_BY = ("ramp/long-4097",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, THRESHOLD: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    maximum = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(maximum, tl.max(tile, axis=0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        # A factor close to one costs an exponential and changes little.
        factor = tl.where(shift - maximum > THRESHOLD, tl.exp(maximum - shift), 1.0)
        total = total * factor + tl.sum(tl.exp(tile - shift), axis=0)
        maximum = larger
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n_cols + cols, tl.exp(tile - maximum) / total, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 0.5, 64)
    return out
