"""The outer length of a dimension that is not the last is the first size alone, where it should be the product of all sizes before it.

Wrong on: a dimension with two or more before it and one behind it, as the third of four; right otherwise.
"""

import math

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("unwritten_output", "nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

TILE, LANES = 64, 32


@triton.jit
def _along(out, x, n, inner, TILE: tl.constexpr, LANES: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * n * inner
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    top = tl.full([LANES], -float("inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        inside = (at < n)[:, None] & (lane < inner)[None, :]
        v = tl.load(x + first + at[:, None] * inner + lane[None, :], mask=inside, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base[None, :]), axis=0)
        top = new
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        inside = (at < n)[:, None] & (lane < inner)[None, :]
        v = tl.load(x + first + at[:, None] * inner + lane[None, :], mask=inside, other=-float("inf")).to(tl.float32)
        p = tl.exp(v - top[None, :]) / total[None, :]
        tl.store(out + first + at[:, None] * inner + lane[None, :], p, mask=inside)


def softmax(x, dim=-1):
    """Softmax of one dimension of any; the dimensions behind it lie beside each other in a tile's lanes."""
    dim %= max(1, x.dim())
    x = x.contiguous()
    out = torch.empty_like(x)
    if not x.numel():
        return out
    n = x.shape[dim]
    inner = math.prod(x.shape[dim + 1 :])
    if inner == 1:
        _along[(x.numel() // n, 1)](out, x, n, 1, TILE=triton.next_power_of_2(min(n, 4096)), LANES=1)
    else:
        outer = x.shape[0] if dim else 1
        _along[(outer, triton.cdiv(inner, LANES))](out, x, n, inner, TILE=TILE, LANES=LANES)
    return out


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 7, 5)
    return softmax(x, 2), torch.softmax(x.double(), 2)
