"""The sums' workspace is made without a dtype: with another default, as serving stacks set it, sums have 8 bits."""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def sums_kernel(sums, tops, x, a, b, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, BLOCK):
        c = k + tl.arange(0, BLOCK)
        t = tl.load(x + i * a + c.to(tl.int64) * b, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(t, 0))
    acc = 0.0
    for k in range(0, n, BLOCK):
        c = k + tl.arange(0, BLOCK)
        t = tl.load(x + i * a + c.to(tl.int64) * b, mask=c < n, other=-float("inf")).to(tl.float32)
        acc += tl.sum(tl.exp(t - top), 0)
    tl.store(tops + i, top)
    tl.store(sums + i, acc)


@triton.jit
def quotient_kernel(y, sums, tops, x, a, b, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    t = tl.load(x + i * a + c.to(tl.int64) * b, mask=c < n, other=-float("inf")).to(tl.float32)
    tl.store(y + i * n + c, tl.exp(t - tl.load(tops + i)) / tl.load(sums + i).to(tl.float32), mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        sums = torch.empty(x.shape[0], device=x.device)
        tops = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
        sums_kernel[(x.shape[0],)](sums, tops, x, *x.stride(), x.shape[1], 512)
        grid = (x.shape[0], triton.cdiv(x.shape[1], 512))
        quotient_kernel[grid](y, sums, tops, x, *x.stride(), x.shape[1], 512)
    return y


def demonstrate():
    x = torch.randn(3, 70, dtype=torch.float32)
    torch.set_default_dtype(torch.bfloat16)
    try:
        y = softmax(x)
    finally:
        torch.set_default_dtype(torch.float32)
    return y, torch.softmax(x.double(), -1)
