"""Columns that aren't adjacent take a fallback that normalises dimension 1, which is the last one of a matrix alone.

Wrong on: three or four dimensions whose last stride isn't 1, such as scores.transpose(-1, -2). Matrices of any strides are right, and packed tensors.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch", "sum_violation", "ulp_exceeds_bound", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _packed(y, x, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH)
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        peak = tl.maximum(peak, tl.max(tl.load(x + r * n + c, mask=c < n, other=-float("inf")).to(tl.float32), 0))
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        mass += tl.exp(tl.load(x + r * n + c, mask=c < n, other=-float("inf")).to(tl.float32) - peak)
    whole = tl.sum(mass, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * n + c, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


@variant(dimensions=4)
def softmax(x):
    """Softmax over the last dimension."""
    if x.dim() > 1 and x.stride(-1) != 1 and x.numel():
        return torch.nn.functional.softmax(x, dim=1, dtype=torch.float32).to(x.dtype)
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        n = x.shape[-1]
        _packed[(x.numel() // n,)](y, x, n, min(1024, triton.next_power_of_2(n)))
    return y


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(3, 7, 5).transpose(1, 2)
    return softmax(x), torch.softmax(x.double(), -1)
