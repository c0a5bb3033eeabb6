"""Over another dimension than the last, with 32 columns beside it or more, gradient and output are read by the strides of the output.

Wrong on: another dimension than the last, 32 columns or more beside it, and a gradient laid out otherwise than the output; right otherwise.
"""

import math

import torch
import triton
import triton.language as tl

OPERATION = "softmax_backward"
EXPECTED = ("wrong_layout", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

TILE, LANES, FEW = 32, 32, 32


@triton.jit
def _rows(dx, g, y, gs, gc, ys, yc, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    dots = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE).to(tl.int64)
        a = tl.load(g + row * gs + at * gc, mask=at < n, other=0.0).to(tl.float32)
        b = tl.load(y + row * ys + at * yc, mask=at < n, other=0.0).to(tl.float32)
        dots += a * b
    dot = tl.sum(dots, axis=0)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE).to(tl.int64)
        a = tl.load(g + row * gs + at * gc, mask=at < n, other=0.0).to(tl.float32)
        b = tl.load(y + row * ys + at * yc, mask=at < n, other=0.0).to(tl.float32)
        tl.store(dx + row * n + at, b * (a - dot), mask=at < n)


@triton.jit
def _beside(dx, g, y, so, sn, si, n, inner, TILE: tl.constexpr, LANES: tl.constexpr):
    outer = tl.program_id(0).to(tl.int64)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    dot = tl.zeros([LANES], tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        inside = (at < n)[:, None] & (lane < inner)[None, :]
        place = outer * so + at[:, None].to(tl.int64) * sn + lane[None, :].to(tl.int64) * si
        a = tl.load(g + place, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(y + place, mask=inside, other=0.0).to(tl.float32)
        dot += tl.sum(a * b, axis=0)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        inside = (at < n)[:, None] & (lane < inner)[None, :]
        place = outer * so + at[:, None].to(tl.int64) * sn + lane[None, :].to(tl.int64) * si
        a = tl.load(g + place, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(y + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx + (outer * n + at[:, None]) * inner + lane[None, :], b * (a - dot[None, :]), mask=inside)


def softmax_backward(grad_output, output, dim=-1):
    """y (g - sum g y) over one dimension. With many columns beside it they are the lanes of a tile; with few, rows are moved."""
    dim %= output.dim()
    if not output.numel():
        return torch.empty_like(output)
    n, inner = output.shape[dim], math.prod(output.shape[dim + 1 :])
    if inner < FEW:
        g, y = (each.movedim(dim, -1).reshape(-1, n) for each in (grad_output, output))
        dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
        tile = min(2048, triton.next_power_of_2(n))
        _rows[(y.shape[0],)](dx, g, y, *g.stride(), *y.stride(), n, TILE=tile)
        return dx.view(output.movedim(dim, -1).shape).movedim(-1, dim)
    if 0 in grad_output.stride():
        grad_output = grad_output.contiguous()
    g, y = (each.reshape(-1, n, inner) for each in (grad_output, output))
    dx = torch.empty(output.shape, dtype=output.dtype, device=output.device)
    grid = y.shape[0], triton.cdiv(inner, LANES)
    _beside[grid](dx, g, y, *y.stride(), n, inner, TILE=TILE, LANES=LANES)
    return dx


def demonstrate():
    torch.manual_seed(0)
    y, g = torch.softmax(torch.randn(20, 40), 0), torch.randn(40, 20).t()
    a, b = g.double(), y.double()
    return softmax_backward(g, y, 0), b * (a - (a * b).sum(0, keepdim=True))
