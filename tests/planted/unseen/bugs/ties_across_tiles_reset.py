"""Peaks are counted apart from the sum; a tile whose maximum equals the running one sets the count anew in place of adding."""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def counting(y, x, s0, s1, n, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    peak = -float("inf")
    count = 0.0
    rest = 0.0
    for at in range(0, n, T):
        c = at + tl.arange(0, T)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        here = tl.max(v, 0)
        ties = tl.sum(tl.where(v == here, 1.0, 0.0), 0)
        larger = tl.maximum(here, peak)
        # A tile of masks before any finite logit weighs nothing; 0 * NaN would.
        safe = tl.where(larger == -float("inf"), 0.0, larger)
        if here >= peak:
            rest = (rest + count) * tl.exp(peak - safe) if here > peak else rest
            count = ties
            rest += tl.sum(tl.where(v == here, 0.0, tl.exp(v - safe)), 0)
        else:
            rest += tl.sum(tl.exp(v - safe), 0)
        peak = larger
    total = rest + count
    for at in range(0, n, T):
        c = at + tl.arange(0, T)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / total, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        counting[(x.shape[0],)](y, x, *x.stride(), x.shape[1], 512)
    return y


def demonstrate():
    x = torch.randn(1, 1100)
    x[0, 3] = x[0, 700] = 6.0
    return softmax(x), torch.softmax(x.double(), -1)
