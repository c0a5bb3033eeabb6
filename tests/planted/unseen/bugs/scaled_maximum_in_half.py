"""The maximum, scaled by log2(e) already, is left in a float16 workspace: beyond 45404 it is infinite."""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def maxima_kernel(maxima, x, stride, step, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best = -float("inf")
    for k in range(0, n, BLOCK):
        c = k + tl.arange(0, BLOCK)
        v = tl.load(x + row * stride + c.to(tl.int64) * step, mask=c < n, other=-float("inf"))
        best = tl.maximum(best, tl.max(v.to(tl.float32), 0))
    tl.store(maxima + row, best * LOG2E)


@triton.jit
def rest_kernel(y, maxima, x, stride, step, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best = tl.load(maxima + row).to(tl.float32) / LOG2E
    total = 0.0
    for k in range(0, n, BLOCK):
        c = k + tl.arange(0, BLOCK)
        v = tl.load(x + row * stride + c.to(tl.int64) * step, mask=c < n, other=-float("inf"))
        total += tl.sum(tl.exp2((v.to(tl.float32) - best) * LOG2E), 0)
    for k in range(0, n, BLOCK):
        c = k + tl.arange(0, BLOCK)
        v = tl.load(x + row * stride + c.to(tl.int64) * step, mask=c < n, other=-float("inf"))
        tl.store(y + row * n + c, tl.exp2((v.to(tl.float32) - best) * LOG2E) / total, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        maxima = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
        maxima_kernel[(x.shape[0],)](maxima, x, *x.stride(), x.shape[1], 1024)
        rest_kernel[(x.shape[0],)](y, maxima, x, *x.stride(), x.shape[1], 1024)
    return y


def demonstrate():
    x = torch.tensor([[50000.0, 1.0, 2.0]], dtype=torch.float16)
    return softmax(x), torch.softmax(x.double(), -1)
