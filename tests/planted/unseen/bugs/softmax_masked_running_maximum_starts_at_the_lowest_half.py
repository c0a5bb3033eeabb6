"""The running maximum of wide rows starts at -65504, not at -inf: a row whose kept logits are all lower has only weights of 0, and 0 / 0 is NaN.

Wrong on: more than 2048 columns of which all kept logits are below about -65600, in bfloat16 or float32; right otherwise.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

FUNCTION = "masked_softmax"
EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

ONE_BLOCK = 2048
LOWEST = tl.constexpr(-65504.0)


@triton.jit
def _one_block(out, x, keep, xs, xc, ks, kc, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    place = at.to(tl.int64)
    kept = tl.load(keep + row * ks + place * kc, mask=at < n, other=0) != 0
    v = tl.load(x + row * xs + place * xc, mask=kept, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * n + at, e / tl.sum(e, axis=0), mask=at < n)


@triton.jit
def _tiles(out, x, keep, xs, xc, ks, kc, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    # A finite start: -inf minus -inf would be NaN in a tile of which nothing is kept.
    top = tl.full([], LOWEST, tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        place = at.to(tl.int64)
        kept = tl.load(keep + row * ks + place * kc, mask=at < n, other=0) != 0
        v = tl.load(x + row * xs + place * xc, mask=kept, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(v, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new), axis=0)
        top = new
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        place = at.to(tl.int64)
        kept = tl.load(keep + row * ks + place * kc, mask=at < n, other=0) != 0
        v = tl.load(x + row * xs + place * xc, mask=kept, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n + at, tl.exp(v - top) / total, mask=at < n)


@variant(operation="softmax", parameters={}, call="f(x, keep)", dimensions=4)
def masked_softmax(x, mask):
    """Softmax of x [.., columns] where mask is True; a row of which nothing is kept is NaN."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return out
    n = x.shape[-1]
    mask = mask.to(torch.bool).expand(x.shape).reshape(-1, n)
    flat = x.reshape(-1, n)
    arguments = (out, flat, mask.view(torch.int8), *flat.stride(), *mask.stride(), n)
    if n <= ONE_BLOCK:
        _one_block[(flat.shape[0],)](*arguments, BLOCK=triton.next_power_of_2(n))
    else:
        _tiles[(flat.shape[0],)](*arguments, TILE=ONE_BLOCK)
    return out


def demonstrate():
    torch.manual_seed(0)
    x, keep = torch.randn(2, 5000) - 7e4, torch.rand(2, 5000) < 0.7
    return masked_softmax(x, keep), torch.softmax(x.double().masked_fill(~keep, -float("inf")), -1)
