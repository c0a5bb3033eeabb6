"""The path for wide rows sets results below the least normal number to 0, "subnormals are slow"; narrow rows keep them."""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def tiles(y, x, a, b, n, FLUSH: tl.constexpr, T: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for j in range(0, n, T):
        k = j + tl.arange(0, T)
        v = tl.load(x + i * a + k.to(tl.int64) * b, mask=k < n, other=-float("inf"))
        top = tl.maximum(top, tl.max(v, 0))
    s = 0.0
    for j in range(0, n, T):
        k = j + tl.arange(0, T)
        s += tl.sum(tl.exp(tl.load(x + i * a + k.to(tl.int64) * b, mask=k < n, other=-float("inf")) - top), 0)
    for j in range(0, n, T):
        k = j + tl.arange(0, T)
        p = tl.exp(tl.load(x + i * a + k.to(tl.int64) * b, mask=k < n, other=-float("inf")) - top) / s
        if FLUSH:
            p = tl.where(p < 1.1754943508222875e-38, 0.0, p)
        tl.store(y + i * n + k, p, mask=k < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        wide = x.shape[1] > 3000
        tiles[(x.shape[0],)](y, x, *x.stride(), x.shape[1], wide, 1024)
    return y


def demonstrate():
    x = torch.full((1, 3500), -90.0)
    x[0, 100] = 0.0
    return softmax(x), torch.softmax(x.double(), -1), x
