"""Elements behind the reduced dimension are counted as ``x.shape[-1]``, where they are the product of all dimensions behind it.

Wrong on: a dimension with two or more, each larger than 1, behind it: the first of three dimensions, the first or second of four; right otherwise.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "masked_not_zero", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

ONE_BLOCK = 1024


@triton.jit
def _row(out, x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row + at, mask=at < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row + at, e / tl.sum(e, axis=0), mask=at < n)


@triton.jit
def _row_online(out, x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    top = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row + at, mask=at < n, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row + at, mask=at < n, other=-float("inf")).to(tl.float32)
        tl.store(out + row + at, tl.exp(v - top) / total, mask=at < n)


@triton.jit
def _vectors(out, x, n, inner, blocks, N: tl.constexpr, INNER: tl.constexpr):
    pid = tl.program_id(0)
    start = (pid // blocks).to(tl.int64) * n * inner
    column = (pid % blocks) * INNER + tl.arange(0, INNER)
    lane = tl.arange(0, N)
    top = tl.full([INNER], -float("inf"), tl.float32)
    total = tl.zeros([INNER], tl.float32)
    for first in range(0, n, N):
        at = first + lane
        place = start + at[:, None].to(tl.int64) * inner + column[None, :]
        v = tl.load(x + place, mask=(at < n)[:, None] & (column < inner)[None, :], other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base[None, :]), axis=0)
        top = new
    for first in range(0, n, N):
        at = first + lane
        place = start + at[:, None].to(tl.int64) * inner + column[None, :]
        inside = (at < n)[:, None] & (column < inner)[None, :]
        v = tl.load(x + place, mask=inside, other=-float("inf")).to(tl.float32)
        tl.store(out + place, tl.exp(v - top[None, :]) / total[None, :], mask=inside)


@variant(operation="softmax", dimensions=4)
def softmax(x, dim=-1):
    """Softmax over any dimension. The last one goes row by row, others in blocks of neighbouring vectors, so that loads stay coalesced."""
    x = x.contiguous()
    out = torch.empty_like(x)
    if not x.numel():
        return out
    dim = dim % x.dim()
    n = x.shape[dim]
    if dim == x.dim() - 1:
        rows = x.numel() // n
        if n <= ONE_BLOCK:
            _row[(rows,)](out, x, n, BLOCK=triton.next_power_of_2(n))
        else:
            _row_online[(rows,)](out, x, n, BLOCK=ONE_BLOCK)
        return out
    inner = x.shape[-1]
    blocks = triton.cdiv(inner, 64)
    _vectors[(x.numel() // (n * inner) * blocks,)](out, x, n, inner, blocks, N=32, INNER=64)
    return out


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 5, 6)
    return softmax(x, 0), torch.softmax(x.double(), 0)
