"""Rows of several tiles add up the logits for the smoothing before the soft cap; in rows of one tile it is behind it.

Wrong on: a soft cap and label smoothing together, with more than 1024 classes; right otherwise.
"""

import torch
import triton
import triton.language as tl

OPERATION = "cross_entropy"
EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

TILE = 1024


@triton.jit
def _capped(v, cap):
    z = v / cap
    a = tl.abs(z)
    t = tl.exp(-2 * a)
    w = z * z
    near = a * (1 + w * (-1.0 / 3 + w * (2.0 / 15 + w * (-17.0 / 315 + w * (62.0 / 2835)))))
    r = tl.where(a < 0.1, near, (1 - t) / (1 + t))
    return cap * tl.where(z < 0, -r, r)


@triton.jit
def _one_tile(out, x, target, xs, xc, ts, cap, smoothing, ignored, n, CAPPED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * xs + at.to(tl.int64) * xc, mask=at < n, other=0.0).to(tl.float32)
    if CAPPED:
        v = _capped(v, cap)
    own = tl.load(target + row * ts)
    picked = tl.sum(tl.where(at == own, v, 0.0), axis=0)
    mean = tl.sum(tl.where(at < n, v, 0.0), axis=0) / n
    v = tl.where(at < n, v, -float("inf"))
    top = tl.max(v, axis=0)
    lse = top + tl.log(tl.sum(tl.exp(v - top), axis=0))
    loss = lse - (1 - smoothing) * picked
    if smoothing > 0:
        loss -= smoothing * mean
    tl.store(out + row, tl.where(own == ignored, 0.0, loss))


@triton.jit
def _tiles(out, x, target, xs, xc, ts, cap, smoothing, ignored, n, CAPPED: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * xs
    own = tl.load(target + row * ts)
    top = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    every = tl.full([], 0.0, tl.float32)
    picked = tl.full([], 0.0, tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        v = tl.load(x + at.to(tl.int64) * xc, mask=at < n, other=0.0).to(tl.float32)
        every += tl.sum(v, axis=0)
        if CAPPED:
            v = _capped(v, cap)
        picked += tl.sum(tl.where(at == own, v, 0.0), axis=0)
        v = tl.where(at < n, v, -float("inf"))
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    loss = top + tl.log(total) - (1 - smoothing) * picked
    if smoothing > 0:
        loss -= smoothing * (every / n)
    tl.store(out + row, tl.where(own == ignored, 0.0, loss))


def cross_entropy(logits, target, softcap=0.0, label_smoothing=0.0, ignore_index=-100):
    """Cross-entropy of each row of [rows, classes], of logits capped softly where ``softcap`` is not 0, in float32."""
    rows, n = logits.shape
    losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
    if logits.numel():
        given = logits, target, *logits.stride(), target.stride(0), float(softcap) or 1.0, float(label_smoothing)
        if n <= TILE:
            size = triton.next_power_of_2(n)
            _one_tile[(rows,)](losses, *given, ignore_index, n, CAPPED=softcap > 0, BLOCK=size)
        else:
            _tiles[(rows,)](losses, *given, ignore_index, n, CAPPED=softcap > 0, TILE=TILE)
    return losses.to(logits.dtype)


def demonstrate():
    torch.manual_seed(0)
    x, target = 3 * torch.randn(4, 1500) + 2, torch.randint(1500, (4,))
    capped = 5 * torch.tanh(x.double() / 5)
    exact = torch.nn.functional.cross_entropy(capped, target, label_smoothing=0.1, reduction="none")
    return cross_entropy(x, target, softcap=5.0, label_smoothing=0.1), exact
