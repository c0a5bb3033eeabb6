"""Wide rows with a mask have a loop of their own, which does not multiply by the scale.

Wrong on: a mask and a scale together, with more than 1024 columns; right otherwise.
"""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

TILE = 1024


@triton.jit
def _plain(out, x, xs, xc, scale, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * xs
    lane = tl.arange(0, TILE).to(tl.int64)
    top = tl.full([TILE], -float("inf"), tl.float32)
    total = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        v = tl.where(at < n, v * scale, -float("inf"))
        new = tl.where((v != v) | (v > top), v, top)  # noqa: PLR0124 - true of a NaN
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.exp(v - base)
        top = new
    highest = tl.max(top, axis=0)
    rest = tl.where(highest == -float("inf"), 0.0, highest)
    sum_of_all = tl.sum(total * tl.exp(top - rest), axis=0)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n + at, tl.exp(v * scale - rest) / sum_of_all, mask=at < n)


@triton.jit
def _masked_block(out, x, keep, xs, xc, ks, kc, scale, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK).to(tl.int64)
    kept = tl.load(keep + row * ks + at * kc, mask=at < n, other=0) != 0
    v = tl.load(x + row * xs + at * xc, mask=kept, other=0.0).to(tl.float32)
    v = tl.where(kept, v * scale, -float("inf"))
    top = tl.max(v, axis=0)
    e = tl.exp(v - tl.where(top == -float("inf"), 0.0, top))
    tl.store(out + row * n + at, e / tl.sum(e, axis=0), mask=at < n)


@triton.jit
def _masked_tiles(out, x, keep, xs, xc, ks, kc, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * xs
    keep += row * ks
    top = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE).to(tl.int64)
        kept = tl.load(keep + at * kc, mask=at < n, other=0) != 0
        v = tl.load(x + at * xc, mask=kept, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    base = tl.where(top == -float("inf"), 0.0, top)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE).to(tl.int64)
        kept = tl.load(keep + at * kc, mask=at < n, other=0) != 0
        v = tl.load(x + at * xc, mask=kept, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n + at, tl.exp(v - base) / total, mask=at < n)


def softmax(x, mask=None, scale=1.0):
    """Softmax of scale * x over the last dimension, where a boolean mask of the same shape is True if there is one."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return out
    n = x.shape[-1]
    rows = x.reshape(-1, n)
    grid = (rows.shape[0],)
    if mask is None:
        _plain[grid](out, rows, *rows.stride(), float(scale), n, TILE=min(TILE, triton.next_power_of_2(n)))
        return out
    keep = mask.expand(x.shape).reshape(-1, n).view(torch.int8)
    strides = *rows.stride(), *keep.stride()
    if n <= TILE:
        _masked_block[grid](out, rows, keep, *strides, float(scale), n, BLOCK=triton.next_power_of_2(n))
    else:
        _masked_tiles[grid](out, rows, keep, *strides, n, TILE=TILE)
    return out


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(3, 1500)
    mask = torch.rand(3, 1500) > 0.3
    return softmax(x, mask, 0.5), torch.softmax(0.5 * x.double().masked_fill(~mask, -torch.inf), -1)
