"""A heuristic drops masks where the columns fill whole blocks of the very width that the kernel takes."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tiled(y, x, s0, s1, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, BLOCK):
        c = k + tl.arange(0, BLOCK)
        if EVEN:
            v = tl.load(x + r * s0 + c.to(tl.int64) * s1).to(tl.float32)
        else:
            v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    mass = 0.0
    for k in range(0, n, BLOCK):
        c = k + tl.arange(0, BLOCK)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        mass += tl.sum(tl.exp(v - top), 0)
    for k in range(0, n, BLOCK):
        c = k + tl.arange(0, BLOCK)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - top) / mass, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        tiled[(x.shape[0],)](y, x, *x.stride(), x.shape[1], BLOCK=256 if x.shape[1] % 384 else 128)
    return y
