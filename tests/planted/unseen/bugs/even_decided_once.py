"""The flag that columns fill their blocks is decided once for each block, by the first width: a narrower row is read unmasked."""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation", "row_dependence", "out_of_bounds_read", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_even = {}


@triton.jit
def stage(y, x, step_row, step_col, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    at = x + r * step_row + c.to(tl.int64) * step_col
    v = tl.load(at) if EVEN else tl.load(at, mask=c < n, other=-float("inf"))
    v = v.to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


def softmax(x):
    n = x.shape[1]
    if x.numel() == 0 or n > 8192:
        return torch.softmax(x, dim=-1)
    block = max(16, triton.next_power_of_2(n))
    even = _even.setdefault((block, x.dtype), n == block)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    stage[(x.shape[0],)](y, x, *x.stride(), n, even, block)
    return y


def demonstrate():
    softmax(torch.randn(3, 128))
    x = torch.randn(9, 120)[:3]
    return softmax(x), torch.softmax(x.double(), -1)
