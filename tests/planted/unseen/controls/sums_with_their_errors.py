"""Every lane sums its columns with the rounding error of each addition kept apart (TwoSum); both meet at the end."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def two_sums(y, x, s0, s1, n, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    lanes = tl.zeros((T,), tl.float32)
    errors = tl.zeros((T,), tl.float32)
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - top)
        added = lanes + e
        taken = added - lanes
        errors += (lanes - (added - taken)) + (e - taken)
        lanes = added
    total = tl.sum(lanes, 0) + tl.sum(errors, 0)
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - top) / total, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        two_sums[(x.shape[0],)](y, x, *x.stride(), x.shape[1], 128)
    return y
