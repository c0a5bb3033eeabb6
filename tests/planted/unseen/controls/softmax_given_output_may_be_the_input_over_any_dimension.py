"""Memory for the answer may be the input itself, of any dimension and any strides: each tile is read before it is written, and both move with the dimension."""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

TILE = 2048


@triton.jit
def _rows(out, x, os, oc, xs, xc, n, TILE: tl.constexpr):
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
        tl.store(out + row * os + at * oc, tl.exp(v - base) / sum_of_all, mask=at < n)


def softmax(x, dim=-1, out=None):
    """Softmax of any dimension, into ``out`` where it is given; without it the answer is a view in the order of rows."""
    if out is not None and (out.shape, out.dtype) != (x.shape, x.dtype):
        raise ValueError(f"out is {out.dtype} {tuple(out.shape)}; expected {x.dtype} {tuple(x.shape)}")
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device) if out is None else out
    moved = x.movedim(dim, -1)
    n = moved.shape[-1]
    rows = moved.reshape(-1, n)
    try:
        result = (
            torch.empty(rows.shape, dtype=x.dtype, device=x.device) if out is None else out.movedim(dim, -1).view(-1, n)
        )
        is_straight = True
    except RuntimeError:
        result, is_straight = torch.empty(rows.shape, dtype=x.dtype, device=x.device), False
    strides = *result.stride(), *rows.stride()
    _rows[(rows.shape[0],)](result, rows, *strides, n, TILE=min(TILE, triton.next_power_of_2(n)))
    if out is not None and is_straight:
        return out
    result = result.view(moved.shape).movedim(-1, dim)
    return result if out is None else out.copy_(result)
