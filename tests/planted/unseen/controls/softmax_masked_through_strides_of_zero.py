"""The mask may be broadcast along any dimension and lie anyhow: its strides, 0 where it is broadcast, go to the kernel, and hidden logits are not read."""

import torch
import triton
import triton.language as tl

from softcheck import variant

FUNCTION = "masked_softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

TILE = 1024


@triton.jit
def _rows(out, x, keep, B, C, xa, xb, xc, xn, ka, kb, kc, kn, scale, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    a, b, c = row // (B * C), row // C % B, row % C
    x += a * xa + b * xb + c * xc
    keep += a * ka + b * kb + c * kc
    lane = tl.arange(0, TILE).to(tl.int64)
    top = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        kept = tl.load(keep + at * kn, mask=at < n, other=0) != 0
        v = tl.load(x + at * xn, mask=kept, other=-float("inf")).to(tl.float32)
        v = tl.where(kept, v * scale, -float("inf"))
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    base = tl.where(top == -float("inf"), 0.0, top)
    total = tl.where(total == 0, 1.0, total)
    for start in range(0, n, TILE):
        at = start + lane
        kept = tl.load(keep + at * kn, mask=at < n, other=0) != 0
        v = tl.load(x + at * xn, mask=kept, other=-float("inf")).to(tl.float32)
        v = tl.where(kept, v * scale, -float("inf"))
        tl.store(out + row * n + at, tl.exp(v - base) / total, mask=at < n)


def _strides(t):
    return (0,) * (4 - t.dim()) + t.stride()


@variant(operation="softmax", fully_masked="zero", call="f(x, keep)", dimensions=4)
def masked_softmax(x, mask, scale=1.0):
    """Softmax of scale * x where mask is True, 0 in a row of which nothing is kept; up to four dimensions."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return out
    mask = mask.to(torch.bool).expand(x.shape)
    sizes = (1,) * (4 - x.dim()) + tuple(x.shape)
    n = sizes[-1]
    rows = x.numel() // n
    _rows[(rows,)](
        out,
        x,
        mask.view(torch.int8),
        sizes[1],
        sizes[2],
        *_strides(x),
        *_strides(mask),
        float(scale),
        n,
        TILE=min(TILE, triton.next_power_of_2(n)),
    )
    return out
