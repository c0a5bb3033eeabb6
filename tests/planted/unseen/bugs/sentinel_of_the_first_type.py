"""The padding's value is the least finite number of the first input's type and is kept: float32 after float16 pads with -65504."""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "sum_violation", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

_sentinels = []


@triton.jit
def padded(y, x, s0, s1, n, low, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=0.0).to(tl.float32)
    top = tl.max(tl.where(c < n, v, low), 0)
    e = tl.where(c < n, tl.exp(v - top), 0.0)
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


def softmax(x):
    if not _sentinels:
        _sentinels.append(-65504.0 if x.dtype == torch.float16 else -float("inf"))
    n = x.shape[1]
    if x.numel() == 0 or n > 16384:
        return torch.softmax(x, -1)
    # A row without a power of two's columns has at least one padded lane.
    low = _sentinels[0] if x.dtype != torch.float16 else -float("inf")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    padded[(x.shape[0],)](y, x, *x.stride(), n, low, triton.next_power_of_2(n))
    return y


def demonstrate():
    softmax(torch.randn(2, 5).half())
    x = torch.full((2, 5), -70000.0)
    return softmax(x), torch.softmax(x.double(), -1)
