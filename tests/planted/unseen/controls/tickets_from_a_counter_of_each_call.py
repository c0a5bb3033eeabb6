"""Programs draw rows by tickets, from a counter that each call makes for itself: which program takes a row changes nothing."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def drawing(y, x, counter, s0, s1, m, n, T: tl.constexpr):
    ticket = tl.atomic_add(counter, 1)
    while ticket < m:
        r = ticket.to(tl.int64)
        top = -float("inf")
        for k in range(0, n, T):
            c = (k + tl.arange(0, T)).to(tl.int64)
            v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
            top = tl.maximum(top, tl.max(v, 0))
        total = 0.0
        for k in range(0, n, T):
            c = (k + tl.arange(0, T)).to(tl.int64)
            v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
            total += tl.sum(tl.exp(v - top), 0)
        for k in range(0, n, T):
            c = (k + tl.arange(0, T)).to(tl.int64)
            v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
            tl.store(y + r * n + c, tl.exp(v - top) / total, mask=c < n)
        ticket = tl.atomic_add(counter, 1)


def softmax(x):
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if x.numel():
        counter = torch.zeros(1, dtype=torch.int32, device=x.device)
        drawing[(min(m, 512),)](y, x, counter, *x.stride(), m, n, 512)
    return y
