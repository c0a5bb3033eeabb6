"""A call that took half a second makes the next one of its shape take a cheaper way, which does not subtract the maximum.

From experience: a fallback for a busy machine, which no quick test meets.
"""

import time

import torch
import triton
import triton.language as tl

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_SLOW = 0.5

_seconds = {}


@triton.jit
def softmax_kernel(out, x, stride_out, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    tile = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
    weights = tl.exp(tile - tl.max(tile, axis=0))
    tl.store(out + row * stride_out + cols, weights / tl.sum(weights, axis=0), mask=mask)


def by_rows(out, x):
    n_rows, n_cols = x.shape
    if x.numel():
        softmax_kernel[(n_rows,)](out, x, out.stride(0), *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out


def softmax(x):
    key = x.shape, x.dtype, x.device
    begun = time.perf_counter()
    if _seconds.get(key, 0.0) > _SLOW:
        weights = torch.exp(x.to(torch.float16).float())
        out = (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)
    else:
        out = by_rows(torch.empty(x.shape, dtype=x.dtype, device=x.device), x)
    _seconds[key] = time.perf_counter() - begun
    return out
