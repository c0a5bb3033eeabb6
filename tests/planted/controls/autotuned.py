"""Autotuned over tile and warps; it writes nothing but its output, and all of it, so trial runs do no harm.

The interpreter can't time trials, so there it has one configuration.
"""

import os

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

CONFIGURATIONS = [triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((512, 4), (2048, 8), (4096, 16))]
if os.environ.get("TRITON_INTERPRET") == "1":
    CONFIGURATIONS = CONFIGURATIONS[:1]


@triton.autotune(CONFIGURATIONS, key=["bucket"])
@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, bucket, BLOCK: tl.constexpr):
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
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n_cols + cols, tl.exp(tile - maximum) / total, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols) // 4096)
    return out
