"""float16 logits are shifted in float32 and multiplied by log2(e) after it, for exp2; the peak's tile is read again."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def exponentials(x, place, inside, top):
    v = tl.load(x + place, mask=inside, other=-float("inf")).to(tl.float32)
    return tl.exp2((v - top) * 1.4426950408889634)


@triton.jit
def base_two(y, x, s0, s1, n, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, T):
        c = k + tl.arange(0, T)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    mass = 0.0
    for k in range(0, n, T):
        c = k + tl.arange(0, T)
        mass += tl.sum(exponentials(x, r * s0 + c.to(tl.int64) * s1, c < n, top), 0)
    for k in range(0, n, T):
        c = k + tl.arange(0, T)
        e = exponentials(x, r * s0 + c.to(tl.int64) * s1, c < n, top)
        tl.store(y + r * n + c, e / mass, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        base_two[(x.shape[0],)](y, x, *x.stride(), x.shape[1], 512)
    return y
