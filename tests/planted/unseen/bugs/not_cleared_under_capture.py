"""The workspace of sums isn't cleared while a graph is captured, "the capture would record it": every replay adds to the last one's."""

import torch
import triton
import triton.language as tl

EXPECTED = ("nondeterministic", "sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)

_sums = {}


@triton.jit
def accumulate(sums, tops, x, s0, s1, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    acc = tl.load(sums + r)
    top = tl.load(tops + r).to(tl.float32)
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        acc += tl.sum(tl.exp(v - top), 0)
    tl.store(sums + r, acc)


@triton.jit
def finish(y, sums, tops, x, s0, s1, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
    tl.store(y + r * n + c, tl.exp(v - tl.load(tops + r).to(tl.float32)) / tl.load(sums + r), mask=c < n)


def softmax(x):
    m, n = x.shape
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    if m not in _sums:
        _sums[m] = torch.zeros(m, device=x.device)
    if not torch.cuda.is_current_stream_capturing():
        _sums[m].zero_()
    tops = x.amax(1)
    accumulate[(m,)](_sums[m], tops, x, *x.stride(), n, 1024)
    finish[(m, triton.cdiv(n, 1024))](y, _sums[m], tops, x, *x.stride(), n, 1024)
    return y
