"""Above 2^22 elements exponentials are parked in the 16-bit output between two launches: their rounding is divided too."""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("cuda",)


@triton.jit
def whole_row(y, x, s0, s1, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, B)
    v = tl.load(x + r * s0 + k.to(tl.int64) * s1, mask=k < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + k, e / tl.sum(e, 0), mask=k < n)


@triton.jit
def exponentials(y, sums, x, s0, s1, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, B)
    v = tl.load(x + r * s0 + k.to(tl.int64) * s1, mask=k < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + k, e, mask=k < n)
    tl.store(sums + r, tl.sum(e, 0))


@triton.jit
def divide(y, sums, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, B)
    e = tl.load(y + r * n + k, mask=k < n).to(tl.float32)
    tl.store(y + r * n + k, e / tl.load(sums + r), mask=k < n)


def softmax(x):
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if m == 0 or n == 0:
        return y
    if n > 8192:
        return torch.softmax(x, -1)
    block = triton.next_power_of_2(n)
    if m * n <= 1 << 22:
        whole_row[(m,)](y, x, *x.stride(), n, block)
        return y
    sums = torch.empty(m, dtype=torch.float32, device=x.device)
    exponentials[(m,)](y, sums, x, *x.stride(), n, block)
    divide[(m,)](y, sums, n, block)
    return y
