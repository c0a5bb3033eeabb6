"""Exponentials wait in global scratch, one slot for each program modulo 256: more than 256 programs at a time share slots.

Wrong on: thousands of rows, of which more than 256 are computed at once: one row reads another's exponentials, on some runs.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("cuda",)

SLOTS = 256


@triton.jit
def through_scratch(y, scratch, x, s0, s1, n, SLOTS: tl.constexpr, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    slot = scratch + (r % SLOTS) * n
    top = -float("inf")
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    total = 0.0
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - top)
        tl.store(slot + c, e, mask=c < n)
        total += tl.sum(e, 0)
    tl.debug_barrier()
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        tl.store(y + r * n + c, tl.load(slot + c, mask=c < n) / total, mask=c < n)


def softmax(x):
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if x.numel():
        scratch = torch.empty((SLOTS, n), dtype=torch.float32, device=x.device)
        through_scratch[(m,)](y, scratch, x, *x.stride(), n, SLOTS, 1024)
    return y
