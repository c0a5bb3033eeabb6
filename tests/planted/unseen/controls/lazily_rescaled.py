"""Rescales only where the maximum has grown, which is a branch: where it has not, the factor would be 1."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def lazy(y, x, s0, s1, n, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    base = x + r * s0
    reference = -float("inf")
    mass = 0.0
    for k in range(0, n, T):
        c = k + tl.arange(0, T)
        v = tl.load(base + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
        here = tl.max(v, 0)
        if here > reference:
            mass = mass * tl.exp(reference - here)
            reference = here
        mass += tl.sum(tl.exp(v - tl.where(reference == -float("inf"), 0.0, reference)), 0)
    for k in range(0, n, T):
        c = k + tl.arange(0, T)
        v = tl.load(base + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
        tl.store(y + r * n + c, tl.exp(v - reference) / mass, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        lazy[(x.shape[0],)](y, x, *x.stride(), x.shape[1], 256)
    return y
