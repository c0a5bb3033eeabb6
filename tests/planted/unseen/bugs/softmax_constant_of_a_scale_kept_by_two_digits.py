"""The scale times log2(e) is kept on the device, so that no call copies it there, under the scale rounded to two digits.

Wrong on: a call after one with another scale of the same two digits, as 0.125 after 0.12; right otherwise.
"""

import math

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("nondeterministic", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_constants = {}


def _constant(scale, device):
    key = round(scale, 2), device
    found = _constants.get(key)
    if found is None:
        with torch.inference_mode(False):
            found = torch.full((1,), scale * math.log2(math.e), dtype=torch.float32, device=device)
        _constants[key] = found
    return found


@triton.jit
def _rows(out, x, factor, xs, xc, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * xs
    by = tl.load(factor)
    top = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE).to(tl.int64)
        v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        own = tl.max(v, axis=0)
        is_nan = tl.max(tl.where(v != v, 1, 0), axis=0) > 0  # noqa: PLR0124 - true of a NaN
        new = tl.where(is_nan | (top != top), float("nan"), tl.maximum(top, own))  # noqa: PLR0124 - true of a NaN
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp2((top - base) * by) + tl.sum(tl.exp2((v - base) * by), axis=0)
        top = new
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE).to(tl.int64)
        v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n + at, tl.exp2((v - top) * by) / total, mask=at < n)


def softmax(x, scale=1.0):
    """Softmax of scale * x, scale > 0, over the last dimension of any strides."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return out
    n = x.shape[-1]
    rows = x.reshape(-1, n)
    tile = min(2048, triton.next_power_of_2(n))
    _rows[(rows.shape[0],)](out, rows, _constant(float(scale), x.device), *rows.stride(), n, TILE=tile)
    return out


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(3, 100)
    softmax(x, 0.12)
    return softmax(x, 0.125), torch.softmax(x.double() / 8, -1)
