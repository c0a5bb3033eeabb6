"""Strides are handed over divided by 8 where 8 divides them, sums of few rows are shared out, and a gradient of one number for each row is not read as a matrix."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

NARROW, TILE, VECTOR, FEW_ROWS = 256, 1024, 8, 4


@triton.jit
def _narrow(dx, g, y, rows, gs, gc, ys, yc, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, BLOCK).to(tl.int64)
    inside = (row < rows)[:, None] & (at < n)[None, :]
    a = tl.load(g + row[:, None] * gs + at[None, :] * gc, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(y + row[:, None] * ys + at[None, :] * yc, mask=inside, other=0.0).to(tl.float32)
    tl.store(dx + row[:, None] * n + at[None, :], a - tl.exp(b) * tl.sum(a, axis=1)[:, None], mask=inside)


@triton.jit
def _sums(sums, g, gs, gc, n, parts, UNIT: tl.constexpr, TILE: tl.constexpr):
    pid = tl.program_id(0)
    row, part = (pid // parts).to(tl.int64), pid % parts
    lane = tl.arange(0, TILE).to(tl.int64)
    found = tl.zeros([TILE], tl.float32)
    for start in range(part * TILE, n, parts * TILE):
        at = start + lane
        found += tl.load(g + row * gs * UNIT + at * gc, mask=at < n, other=0.0).to(tl.float32)
    tl.store(sums + pid, tl.sum(found, axis=0))


@triton.jit
def _apply(
    dx, g, y, sums, gs, gc, ys, yc, n, tiles, parts, UNIT: tl.constexpr, PARTS: tl.constexpr, TILE: tl.constexpr
):
    pid = tl.program_id(0)
    row = (pid // tiles).to(tl.int64)
    at = (pid % tiles) * TILE + tl.arange(0, TILE).to(tl.int64)
    each = tl.arange(0, PARTS)
    total = tl.sum(tl.load(sums + row * parts + each, mask=each < parts, other=0.0), axis=0)
    a = tl.load(g + row * gs * UNIT + at * gc, mask=at < n, other=0.0).to(tl.float32)
    b = tl.load(y + row * ys * UNIT + at * yc, mask=at < n, other=0.0).to(tl.float32)
    tl.store(dx + row * n + at, a - tl.exp(b) * total, mask=at < n)


def _divides(t):
    return t.stride(1) == 1 and t.stride(0) % VECTOR == 0 and t.data_ptr() % 16 == 0


@variant(operation="log_softmax_backward")
def log_softmax_backward(grad_output, output):
    """g - exp(y) sum g of [rows, columns]: narrow rows go several to a program, wide ones in tiles."""
    rows, n = output.shape
    dx = torch.empty(rows, n, dtype=output.dtype, device=output.device)
    if not dx.numel():
        return dx
    (gs, gc), (ys, yc) = grad_output.stride(), output.stride()
    if n <= NARROW:
        _narrow[(triton.cdiv(rows, 8),)](
            dx, grad_output, output, rows, gs, gc, ys, yc, n, ROWS=8, BLOCK=triton.next_power_of_2(n)
        )
        return dx
    unit = VECTOR if _divides(grad_output) and _divides(output) else 1
    tiles = triton.cdiv(n, TILE)
    parts = min(tiles, 8) if rows <= FEW_ROWS else 1
    if gc == 0:
        # A float16 gradient's sum may be beyond float16: it stays in float32.
        sums, parts = grad_output[:, :1].float().mul(n).contiguous(), 1
    else:
        sums = torch.empty(rows, parts, dtype=torch.float32, device=output.device)
        _sums[(rows * parts,)](sums, grad_output, gs // unit, gc, n, parts, UNIT=unit, TILE=TILE)
    _apply[(rows * tiles,)](
        dx,
        grad_output,
        output,
        sums,
        gs // unit,
        gc,
        ys // unit,
        yc,
        n,
        tiles,
        parts,
        UNIT=unit,
        PARTS=triton.next_power_of_2(parts),
        TILE=TILE,
    )
    return dx
