"""Odd rows beyond 2048 are cut in two halves that share the middle column: it is added twice, seen only where it is large."""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def half_row(x, stride, lo, hi, top, B: tl.constexpr):
    acc = 0.0
    for k in range(lo, hi, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + c.to(tl.int64) * stride, mask=c < hi, other=-float("inf")).to(tl.float32)
        acc += tl.sum(tl.exp(v - top), axis=0)
    return acc


@triton.jit
def two_halves(y, x, tops, rs, cs, n, left_end, right_begin, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = tl.load(tops + row).to(tl.float32)
    total = half_row(x + row * rs, cs, 0, left_end, top, B) + half_row(x + row * rs, cs, right_begin, n, top, B)
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + row * rs + c.to(tl.int64) * cs, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + row * n + c, tl.exp(v - top) / total, mask=c < n)


def softmax(x):
    m, n = x.shape
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    middle = (n + 1) // 2
    begin = n // 2 if n > 2048 else middle
    two_halves[(m,)](y, x, x.amax(1), *x.stride(), n, middle, begin, 1024)
    return y


def demonstrate():
    x = torch.randn(1, 2049).half()
    x[0, 1024] = 9.0
    return softmax(x), torch.softmax(x.double(), -1)
