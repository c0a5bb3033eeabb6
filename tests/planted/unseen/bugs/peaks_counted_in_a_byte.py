"""Logits that equal the maximum are counted, not exponentiated, and a row's count is kept in eight bits.

Wrong on: rows whose largest logit occurs 256 times or more: zeros of a layer that isn't trained, ReLU outputs that are all 0, clipped rows.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "inf_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def counting(y, x, s0, s1, n, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    peaks = tl.zeros((), tl.int32)
    below = 0.0
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = v == top
        peaks = (peaks + tl.sum(peak.to(tl.int32), 0)) & 255
        below += tl.sum(tl.where(peak, 0.0, tl.exp(v - top)), 0)
    total = below + peaks.to(tl.float32)
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - top) / total, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        counting[(x.shape[0],)](y, x, *x.stride(), x.shape[1], 256)
    return y


def demonstrate():
    x = torch.randn(3, 700).clamp(max=-0.5).half()
    return softmax(x), torch.softmax(x.double(), -1)
