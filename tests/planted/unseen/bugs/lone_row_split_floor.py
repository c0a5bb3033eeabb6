"""A lone row wider than 8192 is split over programs of 2048 columns, whose count is rounded down: its tail is left out."""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output", "sum_violation", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

PART = 2048


@triton.jit
def partial(ms, ls, x, s1, n, PART: tl.constexpr):
    p = tl.program_id(0)
    c = p * PART + tl.arange(0, PART)
    v = tl.load(x + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
    m = tl.max(v, axis=0)
    safe = tl.where(m == -float("inf"), 0.0, m)
    tl.store(ms + p, m)
    tl.store(ls + p, tl.sum(tl.exp(v - safe), axis=0))


@triton.jit
def finish(y, x, m, total, s1, n, PART: tl.constexpr):
    c = tl.program_id(0) * PART + tl.arange(0, PART)
    v = tl.load(x + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
    tl.store(y + c, tl.exp(v - tl.load(m)) / tl.load(total), mask=c < n)


def decode(x):
    n = x.shape[1]
    parts = n // PART
    ms = torch.empty(parts, dtype=torch.float32, device=x.device)
    ls = torch.empty_like(ms)
    partial[(parts,)](ms, ls, x, x.stride(1), n, PART)
    m = ms.max()
    scale = torch.where(ms == -float("inf"), torch.zeros_like(ms), torch.exp(ms - m))
    total = (ls * scale).sum()
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    finish[(triton.cdiv(n, PART),)](y, x, m, total, x.stride(1), n, PART)
    return y


def softmax(x):
    if x.shape[0] == 1 and x.shape[1] > 8192:
        return decode(x)
    return torch.softmax(x, dim=1)


def demonstrate():
    x = torch.randn(1, 10000)
    x[0, 9990] = 9.0
    return softmax(x), torch.softmax(x.double(), -1)
