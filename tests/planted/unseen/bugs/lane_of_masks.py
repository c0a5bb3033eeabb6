"""Each lane keeps its own maximum and sum; a lane that sees masks alone has exp(-inf - -inf), and its NaN is merged."""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")

LANES = 64


@triton.jit
def per_lane(y, x, s0, s1, n, LANES: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    tops = tl.load(x + r * s0 + lane.to(tl.int64) * s1, mask=lane < n, other=-3e38).to(tl.float32)
    sums = tl.where(lane < n, tl.exp(tops - tops), 0.0)
    for k in range(LANES, n, LANES):
        c = k + lane
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(tops, v)
        sums = sums * tl.exp(tops - larger) + tl.exp(v - larger)
        tops = larger
    top = tl.max(tops, 0)
    total = tl.sum(sums * tl.exp(tops - top), 0)
    for k in range(0, n, LANES):
        c = k + lane
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - top) / total, mask=c < n)


@triton.jit
def by_row(y, x, s0, s1, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


def softmax(x):
    m, n = x.shape
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return y
    # A tile that begins with masks is for the plain kernel; such rows are rare.
    if n <= 16384 and (n < 2 * LANES or bool((x[:, :LANES] == -float("inf")).any())):
        by_row[(m,)](y, x, *x.stride(), n, triton.next_power_of_2(n))
    else:
        per_lane[(m,)](y, x, *x.stride(), n, LANES)
    return y


def demonstrate():
    x = torch.randn(2, 20000)
    x[0, 17::64] = -float("inf")
    return softmax(x), torch.softmax(x.double(), -1)
