"""Rows of any dimension are found by an outer and an inner stride; narrow ones go several to a program, and wide ones are written from the last tile to the first."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

NARROW, ONE_BLOCK, TILE = 64, 4096, 1024


@triton.jit
def _narrow(out, x, rows, inner, outer_stride, inner_stride, column_stride, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, BLOCK).to(tl.int64)
    inside = (row < rows)[:, None] & (at < n)[None, :]
    start = (row // inner) * outer_stride + (row % inner) * inner_stride
    v = tl.load(x + start[:, None] + at[None, :] * column_stride, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=1)[:, None])
    tl.store(out + row[:, None] * n + at[None, :], e / tl.sum(e, axis=1)[:, None], mask=inside)


@triton.jit
def _block(out, x, inner, outer_stride, inner_stride, column_stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK).to(tl.int64)
    start = (row // inner) * outer_stride + (row % inner) * inner_stride
    v = tl.load(x + start + at * column_stride, mask=at < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * n + at, e / tl.sum(e, axis=0), mask=at < n)


@triton.jit
def _tiles(out, x, inner, outer_stride, inner_stride, column_stride, n, tiles, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    start = x + (row // inner) * outer_stride + (row % inner) * inner_stride
    tops = tl.full([TILE], -float("inf"), tl.float32)
    totals = tl.zeros([TILE], tl.float32)
    for tile in range(tiles):
        at = tile * TILE + lane
        v = tl.load(start + at * column_stride, mask=at < n, other=-float("inf")).to(tl.float32)
        new = tl.maximum(tops, v)
        base = tl.where(new == -float("inf"), 0.0, new)
        totals = totals * tl.exp(tops - base) + tl.exp(v - base)
        tops = new
    top = tl.max(tops, axis=0)
    base = tl.where(top == -float("inf"), 0.0, top)
    total = tl.sum(totals * tl.exp(tops - base), axis=0)
    for back in range(tiles):
        at = (tiles - 1 - back) * TILE + lane
        v = tl.load(start + at * column_stride, mask=at < n, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n + at, tl.exp(v - base) / total, mask=at < n)


@triton.jit
def _backward(dx, g, y, row_stride, column_stride, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    dots = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        a = tl.load(g + row * row_stride + at * column_stride, mask=at < n, other=0.0).to(tl.float32)
        b = tl.load(y + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        dots += a * b
    dot = tl.sum(dots, axis=0)
    for start in range(0, n, TILE):
        at = start + lane
        a = tl.load(g + row * row_stride + at * column_stride, mask=at < n, other=0.0).to(tl.float32)
        b = tl.load(y + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(dx + row * n + at, b * (a - dot), mask=at < n)


def _forward_rows(x):
    """Takes [outer, inner, n] of any strides, gives [outer * inner, n]."""
    outer, inner, n = x.shape
    rows = outer * inner
    out = torch.empty(rows, n, dtype=x.dtype, device=x.device)
    strides = x.stride()
    if n <= NARROW:
        _narrow[(triton.cdiv(rows, 16),)](out, x, rows, inner, *strides, n, ROWS=16, BLOCK=triton.next_power_of_2(n))
    elif n <= ONE_BLOCK:
        _block[(rows,)](out, x, inner, *strides, n, BLOCK=triton.next_power_of_2(n))
    else:
        _tiles[(rows,)](out, x, inner, *strides, n, triton.cdiv(n, TILE), TILE=TILE)
    return out


def _in_three(x):
    """Returns x [.., n] as [outer, inner, n]: a view wherever one is."""
    if x.dim() == 1:
        return x[None, None]
    if x.dim() == 2:
        return x[None]
    if x.dim() == 3:
        return x
    return x.reshape(-1, *x.shape[-2:])


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = _forward_rows(_in_three(x)).view(x.shape)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        n = y.shape[-1]
        g = grad.reshape(-1, n)
        dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
        _backward[(g.shape[0],)](dx, g, y, *g.stride(), n, TILE=min(TILE, triton.next_power_of_2(n)))
        return dx


@variant(operation="softmax", dimensions=4)
def softmax(x, dim=-1):
    """Softmax over any of up to four dimensions. Wide rows keep a running maximum per lane; the last tile is still in the cache."""
    if not x.numel():
        return torch.empty_like(x)
    moved = x.movedim(dim, -1)
    if torch.is_grad_enabled() and x.requires_grad:
        return _Softmax.apply(moved).movedim(-1, dim)
    return _forward_rows(_in_three(moved)).view(moved.shape).movedim(-1, dim)
