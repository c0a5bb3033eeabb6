"""A workspace of maxima and sums is kept by row count in the type of the first input: float32 after float16 is left in float16."""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "sum_violation", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_kept = {}


def buffers(x):
    key = (x.shape[0], x.device)
    if key not in _kept:
        stats = torch.float32 if x.element_size() == 4 or x.shape[0] > 1 else x.dtype
        _kept[key] = torch.empty(2, x.shape[0], dtype=stats, device=x.device)
    return _kept[key]


@triton.jit
def stats_kernel(stats, x, s0, s1, m, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    tl.store(stats + r, top)
    top = tl.load(stats + r).to(tl.float32)
    total = 0.0
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(v - top), 0)
    tl.store(stats + m + r, total)


@triton.jit
def output_kernel(y, stats, x, s0, s1, m, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
    p = tl.exp(v - tl.load(stats + r).to(tl.float32)) / tl.load(stats + m + r).to(tl.float32)
    tl.store(y + r * n + c, p, mask=c < n)


def softmax(x):
    m, n = x.shape
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    if y.numel():
        stats = buffers(x)
        stats_kernel[(m,)](stats, x, *x.stride(), m, n, 512)
        output_kernel[(m, triton.cdiv(n, 512))](y, stats, x, *x.stride(), m, n, 512)
    return y


def demonstrate():
    softmax(torch.randn(1, 9).bfloat16())
    x = torch.randn(1, 300)
    return softmax(x), torch.softmax(x.double(), -1)
