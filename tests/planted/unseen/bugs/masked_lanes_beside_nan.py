"""Masked logits are given 0 by a last ``where``, also in rows that hold NaN or +inf, which are NaN throughout.

Wrong on: rows with a NaN or +inf and -inf beside it (a masked batch after a diverged step); a fully masked row gives NaN as it should.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def masking(y, x, s0, s1, n, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    total = 0.0
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(v - top), 0)
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        p = tl.where((v == -float("inf")) & (top > -float("inf")), 0.0, tl.exp(v - top) / total)
        tl.store(y + r * n + c, p, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        masking[(x.shape[0],)](y, x, *x.stride(), x.shape[1], 512)
    return y


def demonstrate():
    x = torch.randn(3, 50)
    x[1, 30:] = -float("inf")
    x[1, 3] = float("inf")
    return softmax(x), torch.softmax(x.double(), -1)
