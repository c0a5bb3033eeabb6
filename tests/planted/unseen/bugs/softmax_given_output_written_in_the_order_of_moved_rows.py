"""The dimension is brought to the end, and rows are written one after the other; packed memory that is given for the answer is not brought in that order.

Wrong on: ``out`` that is packed, and another dimension than the last; right otherwise.
"""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("ulp_exceeds_bound", "wrong_layout", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

TILE = 2048


@triton.jit
def _rows(out, x, xs, xc, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * xs
    lane = tl.arange(0, TILE).to(tl.int64)
    top = tl.full([TILE], -float("inf"), tl.float32)
    total = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        new = tl.where((v != v) | (v > top), v, top)  # noqa: PLR0124 - true of a NaN
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.exp(v - base)
        top = new
    highest = tl.max(top, axis=0)
    base = tl.where(highest == -float("inf"), 0.0, highest)
    sum_of_all = tl.sum(total * tl.exp(top - base), axis=0)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n + at, tl.exp(v - base) / sum_of_all, mask=at < n)


def softmax(x, dim=-1, out=None):
    """Softmax of any dimension, into ``out`` where it is given; without it the answer is a view in the order of rows."""
    if out is not None and (out.shape, out.dtype) != (x.shape, x.dtype):
        raise ValueError(f"out is {out.dtype} {tuple(out.shape)}; expected {x.dtype} {tuple(x.shape)}")
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device) if out is None else out
    moved = x.movedim(dim, -1)
    n = moved.shape[-1]
    rows = moved.reshape(-1, n)
    is_straight = out is not None and out.is_contiguous()
    result = out if is_straight else torch.empty(moved.shape, dtype=x.dtype, device=x.device)
    _rows[(rows.shape[0],)](result, rows, *rows.stride(), n, TILE=min(TILE, triton.next_power_of_2(n)))
    if is_straight:
        return out
    result = result.movedim(-1, dim)
    return result if out is None else out.copy_(result)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(6, 20)
    return softmax(x, 0, out=torch.empty(6, 20)), torch.softmax(x.double(), 0)
