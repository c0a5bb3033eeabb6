"""Differences are clamped to -88 "before exp underflows": masked logits and all beyond weigh exp(-88), not 0."""

import torch
import triton
import triton.language as tl

EXPECTED = ("masked_not_zero", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def clamped(y, x, s0, s1, n, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK)
    v = tl.load(x + r * s0 + k.to(tl.int64) * s1, mask=k < n, other=-float("inf"))
    d = v - tl.max(v, 0)
    e = tl.where(k < n, tl.exp(tl.where(d < -88.0, -88.0, d)), 0.0)
    tl.store(y + r * n + k, e / tl.sum(e, 0), mask=k < n)


def softmax(x):
    if x.numel() == 0 or x.shape[1] > 16384:
        return torch.softmax(x, -1)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    clamped[(len(x),)](y, x, *x.stride(), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y


def demonstrate():
    x = torch.tensor([[0.0, -float("inf"), 1.0]])
    return softmax(x), torch.softmax(x.double(), -1)
