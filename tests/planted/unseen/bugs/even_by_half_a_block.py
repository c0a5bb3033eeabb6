"""Masks are left out where columns are a multiple of 128, but a block has 256: every odd multiple reads half a block of the next row."""

import torch
import triton
import triton.language as tl

EXPECTED = ("row_dependence", "out_of_bounds_read", "sum_violation", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.heuristics({"EVEN": lambda args: args["n"] > 256 and args["n"] % 128 == 0, "BLOCK": lambda args: 256})
@triton.jit
def heuristic_kernel(y, x, s0, s1, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    total = 0.0
    for k in range(0, n, BLOCK):
        c = k + tl.arange(0, BLOCK)
        if EVEN:
            v = tl.load(x + r * s0 + c.to(tl.int64) * s1)
        else:
            v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
        larger = tl.maximum(top, tl.max(v, 0))
        safe = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(top - safe) + tl.sum(tl.exp(v - safe), 0)
        top = larger
    for k in range(0, n, BLOCK):
        c = k + tl.arange(0, BLOCK)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
        tl.store(y + r * n + c, tl.exp(v - top) / total, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        heuristic_kernel[(x.shape[0],)](y, x, x.stride(0), x.stride(1), x.shape[1])
    return y


def demonstrate():
    x = torch.randn(6, 384)[:3]
    return softmax(x), torch.softmax(x.double(), -1)
