"""In the backward of few wide rows a row's sum is made of parts, which lie in steps of a power of two, where the rest is 0."""

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

TILE = 1024


@triton.jit
def _forward(out, x, xs, xc, n, TILE: tl.constexpr):
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
    rest = tl.where(highest == -float("inf"), 0.0, highest)
    logarithm = tl.log(tl.sum(total * tl.exp(top - rest), axis=0))
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n + at, v - highest - logarithm, mask=at < n)


@triton.jit
def _backward(out, y, g, gs, gc, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    total = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        total += tl.load(g + row * gs + at * gc, mask=at < n, other=0.0).to(tl.float32)
    whole = tl.sum(total, axis=0)
    for start in range(0, n, TILE):
        at = start + lane
        up = tl.load(g + row * gs + at * gc, mask=at < n, other=0.0).to(tl.float32)
        p = tl.exp(tl.load(y + row * n + at, mask=at < n, other=0.0).to(tl.float32))
        tl.store(out + row * n + at, up - p * whole, mask=at < n)


@triton.jit
def _parts(parts, g, gs, gc, n, TILE: tl.constexpr, PARTS: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = part * TILE + tl.arange(0, TILE).to(tl.int64)
    up = tl.load(g + row * gs + at * gc, mask=at < n, other=0.0).to(tl.float32)
    tl.store(parts + row * PARTS + part, tl.sum(up, axis=0))


@triton.jit
def _from_parts(out, y, g, parts, gs, gc, n, TILE: tl.constexpr, PARTS: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    lane = tl.arange(0, PARTS)
    sums = tl.load(parts + row * PARTS + lane, mask=lane < PARTS, other=0.0)
    at = part * TILE + tl.arange(0, TILE).to(tl.int64)
    up = tl.load(g + row * gs + at * gc, mask=at < n, other=0.0).to(tl.float32)
    p = tl.exp(tl.load(y + row * n + at, mask=at < n, other=0.0).to(tl.float32))
    tl.store(out + row * n + at, up - p * tl.sum(sums, axis=0), mask=at < n)


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        n = x.shape[-1]
        rows = x.reshape(-1, n)
        y = torch.empty(rows.shape, dtype=x.dtype, device=x.device)
        _forward[(rows.shape[0],)](y, rows, *rows.stride(), n, TILE=min(TILE, triton.next_power_of_2(n)))
        ctx.save_for_backward(y)
        return y.view(x.shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        count, n = y.shape
        g = grad.reshape(y.shape)
        out = torch.empty_like(y)
        tiles = triton.cdiv(n, TILE)
        if count >= 8 or tiles == 1:
            _backward[(count,)](out, y, g, *g.stride(), n, TILE=min(TILE, triton.next_power_of_2(n)))
        else:
            width = triton.next_power_of_2(tiles)
            parts = torch.zeros(count, width, dtype=torch.float32, device=y.device)
            _parts[(count, tiles)](parts, g, *g.stride(), n, TILE=TILE, PARTS=width)
            _from_parts[(count, tiles)](out, y, g, parts, *g.stride(), n, TILE=TILE, PARTS=width)
        return out.view(grad.shape)


def log_softmax(x):
    """Log-softmax over the last dimension; in the backward few wide rows are shared by several programs."""
    return _LogSoftmax.apply(x) if x.numel() else x.clone()


def _gradients(x):
    given, exact, g = x.clone().requires_grad_(), x.double().requires_grad_(), torch.randn(x.shape).to(x.dtype)
    log_softmax(given).backward(g)
    torch.log_softmax(exact, -1).backward(g.double())
    return given.grad, exact.grad


def ordinary(dtype):
    for shape in ((4, 100), (2, 2000), (4, 4096), (1, 3000), (3, 2500), (9, 3000), (2, 3, 70)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (log_softmax(x), torch.log_softmax(x.double(), -1))
        yield f"gradient {shape}", _gradients(x)
