"""The last two leading dimensions alone are asked if all of them are one dimension of rows.

Wrong on: four dimensions with more than 1024 columns and a gap behind the first dimension, as in ``x[:, :3]``, or a stride of 0; right otherwise.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_layout", "ulp_exceeds_bound", "sum_violation", "nan_mismatch", "out_of_bounds_read")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

WIDE = 1024


@triton.jit
def _narrow(out, x, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (at < n)[None, :]
    place = row[:, None] * n + at[None, :]
    v = tl.load(x + place, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=1)[:, None])
    tl.store(out + place, e / tl.sum(e, axis=1)[:, None], mask=inside)


@triton.jit
def _wide(out, x, row_stride, column_stride, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE)
    tops = tl.full([TILE], -float("inf"), tl.float32)
    totals = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + row * row_stride + at.to(tl.int64) * column_stride, mask=at < n, other=-float("inf")).to(
            tl.float32
        )
        new = tl.maximum(tops, v)
        base = tl.where(new == -float("inf"), 0.0, new)
        totals = totals * tl.exp(tops - base) + tl.exp(v - base)
        tops = new
    top = tl.max(tops, axis=0)
    base = tl.where(top == -float("inf"), 0.0, top)
    total = tl.sum(totals * tl.exp(tops - base), axis=0)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + row * row_stride + at.to(tl.int64) * column_stride, mask=at < n, other=-float("inf")).to(
            tl.float32
        )
        tl.store(out + row * n + at, tl.exp(v - top) / total, mask=at < n)


def _row_stride(x):
    """Returns the distance of rows if it is the same throughout, else None."""
    if x.dim() == 1:
        return 0
    if x.dim() == 2 or x.stride(-3) == x.shape[-2] * x.stride(-2):
        return x.stride(-2)
    return None


@variant(operation="softmax", dimensions=4)
def softmax(x):
    """Softmax of the last of up to four dimensions, without copies of wide rows."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return out
    n = x.shape[-1]
    rows = x.numel() // n
    if n <= WIDE:
        block = triton.next_power_of_2(n)
        per_program = max(1, min(16, 1024 // block))
        _narrow[(triton.cdiv(rows, per_program),)](out, x.contiguous(), rows, n, ROWS=per_program, BLOCK=block)
        return out
    row_stride = _row_stride(x)
    if row_stride is None:
        x = x.contiguous()
        row_stride = n
    _wide[(rows,)](out, x, row_stride, x.stride(-1), n, TILE=WIDE)
    return out


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(2, 4, 2, 1500)[:, :3]
    return softmax(x), torch.softmax(x.double(), -1)
