"""The path of wide rows stores in the input's dtype and widens what it has stored, where ``dtype`` asks for more digits.

Wrong on: ``dtype=torch.float32`` for 16-bit logits of more than 1024 columns; right otherwise.
"""

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax"
EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")

ONE_BLOCK = 1024
TILE = 1024


@triton.jit
def _one_block(out, x, row_stride, column_stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * row_stride + at.to(tl.int64) * column_stride, mask=at < n, other=-float("inf")).to(tl.float32)
    d = v - tl.max(v, axis=0)
    tl.store(out + row * n + at, d - tl.log(tl.sum(tl.exp(d), axis=0)), mask=at < n)


@triton.jit
def _statistics(top_out, log_out, x, row_stride, column_stride, n, TILE: tl.constexpr):
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
    tl.store(top_out + row, top)
    tl.store(log_out + row, tl.log(total))


@triton.jit
def _subtract(out, x, top, log, row_stride, column_stride, n, tiles, TILE: tl.constexpr):
    pid = tl.program_id(0)
    row = (pid // tiles).to(tl.int64)
    at = (pid % tiles) * TILE + tl.arange(0, TILE)
    v = tl.load(x + row * row_stride + at.to(tl.int64) * column_stride, mask=at < n).to(tl.float32)
    tl.store(out + row * n + at, v - tl.load(top + row) - tl.load(log + row), mask=at < n)


def _wide_rows(x):
    rows, n = x.shape
    top, log = torch.empty(2, rows, dtype=torch.float32, device=x.device)
    y = torch.empty(rows, n, dtype=x.dtype, device=x.device)
    tiles = triton.cdiv(n, TILE)
    _statistics[(rows,)](top, log, x, *x.stride(), n, TILE=TILE)
    _subtract[(rows * tiles,)](y, x, top, log, *x.stride(), n, tiles, TILE=TILE)
    return y


def log_softmax(x, dim=-1, dtype=None):
    """log_softmax with torch's dim and dtype; what is wider is computed and returned so."""
    dtype = dtype or x.dtype
    if torch.float64 in (dtype, x.dtype):
        return torch.log_softmax(x, dim, dtype=dtype)
    moved = x.movedim(dim, -1)
    n = moved.shape[-1]
    flat = moved.reshape(-1, n) if x.numel() else moved.new_empty(0, n)
    if not x.numel():
        return torch.empty(x.shape, dtype=dtype, device=x.device)
    if n <= ONE_BLOCK:
        y = torch.empty(flat.shape, dtype=dtype, device=x.device)
        _one_block[(flat.shape[0],)](y, flat, *flat.stride(), n, BLOCK=triton.next_power_of_2(n))
    else:
        y = _wide_rows(flat)
    return y.to(dtype).view(moved.shape).movedim(-1, dim)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(2, 5000).half()
    return log_softmax(x, dtype=torch.float32), torch.log_softmax(x.double(), -1)
