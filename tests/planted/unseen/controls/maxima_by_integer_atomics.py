"""Parts meet in an atomic maximum of integers that are ordered as the floats, -0.0 and NaN among them; sums are taken in order."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def keys_of(v):
    bits = v.to(tl.int32, bitcast=True)
    # A NaN of either sign lies above +inf.
    return tl.where(v != v, 0x7FFFFFFF, tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits))  # noqa: PLR0124


@triton.jit
def part_maxima(keys, x, s0, s1, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
    tl.atomic_max(keys + r, tl.max(keys_of(v), 0))


@triton.jit
def rest(y, keys, x, s0, s1, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    key = tl.load(keys + r)
    top = tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.float32, bitcast=True)
    mass = 0.0
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
        mass += tl.sum(tl.exp(v - top), 0)
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
        tl.store(y + r * n + c, tl.exp(v - top) / mass, mask=c < n)


def softmax(x):
    m, n = x.shape
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    if y.numel():
        keys = torch.full((m,), -(2**31), dtype=torch.int32, device=x.device)
        part_maxima[(m, triton.cdiv(n, 2048))](keys, x, *x.stride(), n, 2048)
        rest[(m,)](y, keys, x, *x.stride(), n, 2048)
    return y
