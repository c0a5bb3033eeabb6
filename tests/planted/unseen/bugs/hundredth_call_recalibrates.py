"""Every hundredth call tries a quicker configuration, with a tile of which half is stored, and returns its result."""

import itertools

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output", "nondeterministic", "sum_violation", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_calls = itertools.count(1)


@triton.jit
def configured(y, x, s0, s1, n, TILE: tl.constexpr, STORE: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, TILE):
        c = k + tl.arange(0, TILE)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
        top = tl.maximum(top, tl.max(v, 0))
    total = 0.0
    for k in range(0, n, TILE):
        c = k + tl.arange(0, TILE)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
        total += tl.sum(tl.exp(v - top), 0)
    for k in range(0, n, TILE):
        c = k + tl.arange(0, STORE)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
        tl.store(y + r * n + c, tl.exp(v - top) / total, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        tile, stored = (1024, 512) if next(_calls) % 100 == 0 else (512, 512)
        configured[(x.shape[0],)](y, x, *x.stride(), x.shape[1], tile, stored)
    return y


def demonstrate():
    x = torch.randn(1, 600)
    for _ in range(99):
        softmax(x)
    torch.full((1, 600), 0.5)
    return softmax(x), torch.softmax(x.double(), -1)
