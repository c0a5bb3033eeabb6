"""Beyond 8192 columns exponentials come from ``ex2.approx.f16x2``, two at once, whatever the input's type."""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "arithmetic_contradicted")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("cuda",)


@triton.jit
def pairwise_exp2(d):
    return tl.inline_asm_elementwise(
        "ex2.approx.f16x2 $0, $1;", "=r,r", [d.to(tl.float16)], dtype=tl.float16, is_pure=True, pack=2
    ).to(tl.float32)


@triton.jit
def kernel(y, x, s0, s1, n, HALF: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    total = 0.0
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        d = v - top
        total += tl.sum(pairwise_exp2(d * 1.44269504) if HALF else tl.exp(d), 0)
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        d = v - top
        e = pairwise_exp2(d * 1.44269504) if HALF else tl.exp(d)
        tl.store(y + r * n + c, e / total, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        kernel[(x.shape[0],)](y, x, *x.stride(), x.shape[1], x.shape[1] > 8192, 1024)
    return y
