"""Scale and mask meet in one kernel of any width; the mask may be of booleans or of any integers, which the kernel compares in their own type."""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
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
def _masked_tiles(out, x, keep, xs, xc, ks, kc, scale, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * xs
    keep += row * ks
    top = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE).to(tl.int64)
        kept = tl.load(keep + at * kc, mask=at < n, other=0) != 0
        v = tl.load(x + at * xc, mask=kept, other=0.0).to(tl.float32)
        v = tl.where(kept, v * scale, -float("inf"))
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    base = tl.where(top == -float("inf"), 0.0, top)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE).to(tl.int64)
        kept = tl.load(keep + at * kc, mask=at < n, other=0) != 0
        v = tl.load(x + at * xc, mask=kept, other=0.0).to(tl.float32)
        v = tl.where(kept, v * scale, -float("inf"))
        tl.store(out + row * n + at, tl.exp(v - base) / total, mask=at < n)


def softmax(x, mask=None, scale=1.0):
    """Softmax of scale * x over the last dimension, where a mask of the same shape is not 0 if there is one."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return out
    n = x.shape[-1]
    rows = x.reshape(-1, n)
    grid = (rows.shape[0],)
    if mask is None:
        _plain[grid](out, rows, *rows.stride(), float(scale), n, TILE=min(TILE, triton.next_power_of_2(n)))
        return out
    keep = mask.expand(x.shape).reshape(-1, n)
    keep = keep.view(torch.int8) if keep.dtype == torch.bool else keep
    strides = *rows.stride(), *keep.stride()
    _masked_tiles[grid](out, rows, keep, *strides, float(scale), n, TILE=min(TILE, triton.next_power_of_2(n)))
    return out
