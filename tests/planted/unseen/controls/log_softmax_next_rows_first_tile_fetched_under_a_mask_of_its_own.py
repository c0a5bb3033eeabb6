"""Right: a persistent program loads the next row's first tile while it sums this row's last one, as wide as a first tile is, and none behind the last row."""

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

PROGRAMS = 96


@triton.jit
def _persistent(y, x, rows, n, x_row, x_column, TILE: tl.constexpr):
    step = tl.num_programs(0)
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    ahead = tl.load(x + row * x_row + lane * x_column, mask=lane < n, other=-float("inf"))
    while row < rows:
        tops = tl.full([TILE], -float("inf"), tl.float32)
        totals = tl.zeros([TILE], tl.float32)
        for start in range(0, n, TILE):
            v = ahead.to(tl.float32)
            # Which memory comes next: more of this row, or the head of the one that this program takes next.
            same = start + TILE < n
            whose = tl.where(same, row, row + step)
            at = tl.where(same, start + TILE, 0) + lane
            left = tl.where(whose < rows, n, 0)
            ahead = tl.load(x + whose * x_row + at * x_column, mask=at < left, other=-float("inf"))
            new = tl.where((v != v) | (v > tops), v, tops)  # noqa: PLR0124 - true of a NaN
            base = tl.where(new == -float("inf"), 0.0, new)
            totals = totals * tl.exp(tops - base) + tl.exp(v - base)
            tops = new
        top = tl.max(tops, axis=0)
        base = tl.where(top == -float("inf"), 0.0, top)
        log = tl.log(tl.sum(totals * tl.exp(tops - base), axis=0))
        for start in range(0, n, TILE):
            at = start + lane
            v = tl.load(x + row * x_row + at * x_column, mask=at < n, other=0.0).to(tl.float32)
            tl.store(y + row * n + at, v - top - log, mask=at < n)
        row += step


def log_softmax(x):
    """Log-softmax of the rows of a matrix, with one program for several rows."""
    rows, n = x.shape
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        _persistent[(min(rows, PROGRAMS),)](y, x, rows, n, *x.stride(), TILE=min(512, triton.next_power_of_2(n)))
    return y
