"""Partial results lie in one workspace for all streams: calls that overlap on two streams overwrite each other's."""

import torch
import triton
import triton.language as tl

EXPECTED = ("nondeterministic", "sum_violation", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)

_scratch = {}


@triton.jit
def reduce_rows(stats, x, s0, s1, n, m, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        top = tl.maximum(top, tl.max(tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")), 0))
    total = 0.0
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
        total += tl.sum(tl.exp(v - top), 0)
    tl.store(stats + row, top)
    tl.store(stats + m + row, total)


@triton.jit
def apply_rows(y, stats, x, s0, s1, n, m, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
    tl.store(y + row * n + c, tl.exp(v - tl.load(stats + row)) / tl.load(stats + m + row), mask=c < n)


def softmax(x):
    m, n = x.shape
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    if y.numel():
        if x.device not in _scratch or _scratch[x.device].numel() < 2 * m:
            _scratch[x.device] = torch.empty(2 * m, device=x.device)
        stats = _scratch[x.device]
        reduce_rows[(m,)](stats, x, *x.stride(), n, m, 1024)
        apply_rows[(m, triton.cdiv(n, 1024))](y, stats, x, *x.stride(), n, m, 1024)
    return y
