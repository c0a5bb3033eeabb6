"""Over another dimension than the last the lanes of a tile are the columns beside it, which are read one behind the other, whatever their stride is.

Wrong on: another dimension than the last of a tensor whose last dimension is not packed; right otherwise.
"""

import math

import torch
import triton
import triton.language as tl

OPERATION = "logsumexp"
EXPECTED = ("ulp_exceeds_bound", "wrong_layout", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

TILE, LANES = 32, 64


@triton.jit
def _last(out, x, xo, xn, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * xo
    top = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE).to(tl.int64)
        v = tl.load(x + at * xn, mask=at < n, other=-float("inf")).to(tl.float32)
        own = tl.max(tl.where(v != v, float("inf"), v), axis=0)  # noqa: PLR0124 - true of a NaN
        new = tl.maximum(top, own)
        base = tl.where((new == -float("inf")) | (new == float("inf")), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    base = tl.where((top == -float("inf")) | (top == float("inf")), 0.0, top)
    tl.store(out + row, base + tl.log(total))


@triton.jit
def _beside(out, x, xo, xn, n, inner, TILE: tl.constexpr, LANES: tl.constexpr):
    outer = tl.program_id(0).to(tl.int64)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    x += outer * xo
    top = tl.full([LANES], -float("inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        inside = (at < n)[:, None] & (lane < inner)[None, :]
        v = tl.load(x + at[:, None].to(tl.int64) * xn + lane[None, :], mask=inside, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(tl.where(v != v, float("inf"), v), axis=0))  # noqa: PLR0124 - true of a NaN
        base = tl.where((new == -float("inf")) | (new == float("inf")), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base[None, :]), axis=0)
        top = new
    base = tl.where((top == -float("inf")) | (top == float("inf")), 0.0, top)
    tl.store(out + outer * inner + lane, base + tl.log(total), mask=lane < inner)


def logsumexp(x, dim=-1, keepdim=False):
    """log-sum-exp over one dimension of any; over another than the last, lanes are what lies beside it."""
    if not x.numel():
        return torch.logsumexp(x, dim, keepdim)
    dim %= x.dim()
    n, inner = x.shape[dim], math.prod(x.shape[dim + 1 :])
    whole = x.reshape(-1, n, inner)
    out = torch.empty(whole.shape[0], inner, dtype=x.dtype, device=x.device)
    if inner == 1:
        tile = min(4096, triton.next_power_of_2(n))
        _last[(whole.shape[0],)](out, whole, *whole.stride()[:2], n, TILE=tile)
    else:
        grid = whole.shape[0], triton.cdiv(inner, LANES)
        _beside[grid](out, whole, *whole.stride()[:2], n, inner, TILE=TILE, LANES=LANES)
    out = out.view(*x.shape[:dim], 1, *x.shape[dim + 1 :])
    return out if keepdim else out.squeeze(dim)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(20, 9).t()
    return logsumexp(x, 0), torch.logsumexp(x.double(), 0)
