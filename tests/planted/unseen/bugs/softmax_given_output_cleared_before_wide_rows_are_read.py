"""Tiles of wide rows without a finite logit are not written, so the memory for the answer is cleared before: with ``out=x`` that is the input.

Wrong on: ``out`` that is the input, with more than 1024 columns; right otherwise.
"""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("ulp_exceeds_bound", "order_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

TILE = 1024


@triton.jit
def _block(out, x, os, oc, xs, xc, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * xs + at.to(tl.int64) * xc, mask=at < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * os + at.to(tl.int64) * oc, e / tl.sum(e, axis=0), mask=at < n)


@triton.jit
def _tiles(out, x, os, oc, xs, xc, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * xs
    out += row * os
    top = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        v = tl.load(x + at.to(tl.int64) * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        own = tl.max(v, axis=0)
        new = tl.where(own != own, own, tl.maximum(top, own))  # noqa: PLR0124 - true of a NaN
        new = tl.where(top != top, top, new)  # noqa: PLR0124 - true of a NaN
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        v = tl.load(x + at.to(tl.int64) * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        p = tl.exp(v - top) / total
        # What underflows, or is hidden, has its 0 already.
        if tl.max(tl.where(p == 0, 0, 1), axis=0) > 0:
            tl.store(out + at.to(tl.int64) * oc, p, mask=at < n)


def softmax(x, out=None):
    """Softmax of [.., columns] of any strides, into ``out`` where it is given. Tiles of zeros are not written."""
    if out is None:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return out
    n = x.shape[-1]
    rows = x.reshape(-1, n)
    result = out.view(-1, n) if out.is_contiguous() else torch.empty(rows.shape, dtype=x.dtype, device=x.device)
    strides = *result.stride(), *rows.stride()
    if n <= TILE:
        _block[(rows.shape[0],)](result, rows, *strides, n, BLOCK=triton.next_power_of_2(n))
    else:
        result.zero_()
        _tiles[(rows.shape[0],)](result, rows, *strides, n, TILE=TILE)
    if not out.is_contiguous():
        out.copy_(result.view(out.shape))
    return out


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(2, 1500)
    exact = torch.softmax(x.double(), -1)
    return softmax(x, out=x), exact
