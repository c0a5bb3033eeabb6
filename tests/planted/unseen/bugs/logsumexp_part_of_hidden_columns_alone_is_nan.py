"""A few wide rows are split into parts, and a part's maximum of -inf is subtracted as it is: a part that is hidden as a whole makes its row NaN.

Wrong on: at most 8 rows of 4096 columns or more of which a whole part, as the last third of 5000 columns, is -inf; right otherwise.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

FEW_ROWS, WIDE, TILE = 8, 4096, 1024


@triton.jit
def _rows(out, x, row_stride, column_stride, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        v = tl.load(x + row * row_stride + at.to(tl.int64) * column_stride, mask=at < n, other=-float("inf")).to(
            tl.float32
        )
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    tl.store(out + row, top + tl.log(total))


@triton.jit
def _parts(tops, totals, x, row_stride, column_stride, n, parts, length, TILE: tl.constexpr):
    pid = tl.program_id(0)
    row = (pid // parts).to(tl.int64)
    first = (pid % parts) * length
    end = tl.minimum(first + length, n)
    lane = tl.arange(0, TILE)
    top = tl.full([], -float("inf"), tl.float32)
    for start in range(first, end, TILE):
        at = start + lane
        v = tl.load(x + row * row_stride + at.to(tl.int64) * column_stride, mask=at < end, other=-float("inf")).to(
            tl.float32
        )
        top = tl.maximum(top, tl.max(v, axis=0))
    total = tl.full([], 0.0, tl.float32)
    for start in range(first, end, TILE):
        at = start + lane
        v = tl.load(x + row * row_stride + at.to(tl.int64) * column_stride, mask=at < end, other=-float("inf")).to(
            tl.float32
        )
        total += tl.sum(tl.where(at < end, tl.exp(v - top), 0.0), axis=0)
    tl.store(tops + pid, top)
    tl.store(totals + pid, total)


@triton.jit
def _join(out, tops, totals, parts, PARTS: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, PARTS)
    top = tl.load(tops + row * parts + at, mask=at < parts, other=-float("inf"))
    total = tl.load(totals + row * parts + at, mask=at < parts, other=0.0)
    most = tl.max(top, axis=0)
    base = tl.where(most == -float("inf"), 0.0, most)
    tl.store(out + row, most + tl.log(tl.sum(total * tl.exp(top - base), axis=0)))


@variant(operation="logsumexp")
def logsumexp(x):
    """logsumexp of [rows, columns]. Many rows take one program each; few wide ones are split, and a second kernel joins the parts."""
    rows, n = x.shape
    if n == 0:
        return x.new_full((rows,), -float("inf"))
    out = torch.empty(rows, dtype=x.dtype, device=x.device)
    if rows == 0:
        return out
    if rows > FEW_ROWS or n < WIDE:
        _rows[(rows,)](out, x, *x.stride(), n, TILE=TILE)
        return out
    parts = min(64, triton.cdiv(n, 2 * TILE))
    length = triton.cdiv(triton.cdiv(n, parts), TILE) * TILE
    parts = triton.cdiv(n, length)
    tops, totals = torch.empty(2, rows * parts, dtype=torch.float32, device=x.device)
    _parts[(rows * parts,)](tops, totals, x, *x.stride(), n, parts, length, TILE=TILE)
    _join[(rows,)](out, tops, totals, parts, PARTS=triton.next_power_of_2(parts))
    return out


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(2, 5000)
    x[:, 3000:] = -float("inf")
    return logsumexp(x), torch.logsumexp(x.double(), -1)
