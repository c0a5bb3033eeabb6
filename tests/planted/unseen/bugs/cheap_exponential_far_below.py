"""Logits more than 16 below the maximum take an exponential of three terms, "they don't matter": 4e-3 off.

Wrong on: the small probabilities of peaked rows, which log-likelihoods are taken of; no logit of randn lies that low.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def exponential(d):
    t = d * 1.4426950408889634
    whole = tl.floor(t)
    f = t - whole
    cheap = (1.0 + f * (0.6565 + f * 0.3435)) * tl.exp2(whole)
    return tl.where(d < -16.0, cheap, tl.exp(d))


@triton.jit
def two_speeds(y, x, s0, s1, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
    d = v - tl.max(v, 0)
    e = tl.where(d == -float("inf"), 0.0, exponential(tl.where(d == -float("inf"), 0.0, d)))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


def softmax(x):
    if x.numel() == 0 or x.shape[1] > 16384:
        return torch.softmax(x, -1)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    two_speeds[(x.shape[0],)](y, x, *x.stride(), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y


def demonstrate():
    x = 8.0 * torch.randn(3, 100)
    return softmax(x), torch.softmax(x.double(), -1)
