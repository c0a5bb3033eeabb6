"""A few wide rows are split among programs that take tiles in turn, as many as the number of rows leaves room for; a row's last bit may depend on its batch."""

import torch
import triton
import triton.language as tl

from softcheck import variant

FUNCTION = "logsumexp2"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

TILE, PROGRAMS = 1024, 16


@triton.jit
def _part(tops, totals, x, row_stride, column_stride, n, parts, tiles, TILE: tl.constexpr):
    pid = tl.program_id(0)
    row, part = (pid // parts).to(tl.int64), pid % parts
    lane = tl.arange(0, TILE)
    top = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    # Parts take tiles in turn, so that no two differ by more than one.
    for tile in range(part, tiles, parts):
        at = tile * TILE + lane
        v = tl.load(x + row * row_stride + at.to(tl.int64) * column_stride, mask=at < n, other=-float("inf")).to(
            tl.float32
        )
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    tl.store(tops + pid, top)
    tl.store(totals + pid, total)


@triton.jit
def _join(out, tops, totals, parts, PARTS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, PARTS)
    top = tl.load(tops + row * parts + at, mask=at < parts, other=-float("inf"))
    total = tl.load(totals + row * parts + at, mask=at < parts, other=0.0)
    most = tl.max(top, axis=0)
    base = tl.where(most == -float("inf"), 0.0, most)
    total = tl.sum(total * tl.exp(top - base), axis=0)
    # The maximum times log2(e) in two pieces: its product's error would be that of the answer.
    high = most * 1.4426950216293335
    low = most * 1.9259629911266175e-08
    tl.store(out + row, tl.where((most == -float("inf")) & (total == 0.0), most, high + (low + tl.log2(total))))


@variant(operation="logsumexp", parameters={"base": 2.0})
def logsumexp2(x):
    """log2 of the sum of exponentials of [rows, columns]. Parts hold the maximum in base e and a sum relative to it."""
    rows, n = x.shape
    if n == 0:
        return x.new_full((rows,), -float("inf"))
    out = torch.empty(rows, dtype=x.dtype, device=x.device)
    if rows == 0:
        return out
    tile = min(TILE, triton.next_power_of_2(n))
    tiles = triton.cdiv(n, tile)
    parts = min(tiles, max(1, PROGRAMS // rows))
    tops, totals = torch.empty(2, rows * parts, dtype=torch.float32, device=x.device)
    _part[(rows * parts,)](tops, totals, x, *x.stride(), n, parts, tiles, TILE=tile)
    _join[(rows,)](out, tops, totals, parts, PARTS=triton.next_power_of_2(parts))
    return out
