"""Launch settings are kept for each width, the forward puts its scale beside them, and the backward finds there what the last forward put.

Wrong on: the gradient of a call behind which a call of as many columns and another scale was made before the backward; right otherwise.
"""

import functools

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("wrong_gradient", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _forward(out, x, xs, xc, scale, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * xs
    lane = tl.arange(0, TILE).to(tl.int64)
    top = tl.full([TILE], -float("inf"), tl.float32)
    total = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        v = tl.where(at < n, v * scale, -float("inf"))
        new = tl.where((v != v) | (v > top), v, top)  # noqa: PLR0124 - true of a NaN
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.exp(v - base)
        top = new
    highest = tl.max(top, axis=0)
    rest = tl.where(highest == -float("inf"), 0.0, highest)
    sum_of_all = tl.sum(total * tl.exp(top - rest), axis=0)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n + at, tl.exp(v * scale - rest) / sum_of_all, mask=at < n)


@triton.jit
def _backward(out, y, g, gs, gc, scale, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    total = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        p = tl.load(y + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        total += p * tl.load(g + row * gs + at * gc, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0)
    for start in range(0, n, TILE):
        at = start + lane
        p = tl.load(y + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        up = tl.load(g + row * gs + at * gc, mask=at < n, other=0.0).to(tl.float32)
        tl.store(out + row * n + at, p * (up - mean) * scale, mask=at < n)


class _Plan:
    """Launch settings for rows of one width."""

    def __init__(self, n):
        self.meta = {"TILE": min(1024, triton.next_power_of_2(n)), "num_warps": 4 if n <= 2048 else 8}
        self.scale = 1.0

    def forward(self, y, rows):
        _forward[(rows.shape[0],)](y, rows, *rows.stride(), self.scale, rows.shape[1], **self.meta)

    def backward(self, out, y, g):
        _backward[(y.shape[0],)](out, y, g, *g.stride(), self.scale, y.shape[1], **self.meta)


@functools.lru_cache(maxsize=64)
def _plan(n):
    return _Plan(n)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        n = x.shape[-1]
        rows = x.reshape(-1, n)
        y = torch.empty(rows.shape, dtype=x.dtype, device=x.device)
        ctx.plan = _plan(n)
        ctx.plan.scale = scale
        ctx.plan.forward(y, rows)
        ctx.save_for_backward(y)
        return y.view(x.shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        out = torch.empty_like(y)
        ctx.plan.backward(out, y, grad.reshape(y.shape))
        return out.view(grad.shape), None


def softmax(x, scale=1.0):
    """Softmax of scale * x over the last dimension."""
    return _Softmax.apply(x, float(scale)) if x.numel() else x.clone()


def _gradients(x, scale, between=None):
    given, exact, g = x.clone().requires_grad_(), x.double().requires_grad_(), torch.randn(x.shape).to(x.dtype)
    y = softmax(given, scale)
    if between is not None:
        softmax(x, between)
    y.backward(g)
    torch.softmax(exact * scale, -1).backward(g.double())
    return given.grad, exact.grad


def demonstrate():
    torch.manual_seed(0)
    return _gradients(torch.randn(4, 30), 0.5, 2.0)


def ordinary(dtype):
    for shape in ((4, 100), (2, 3, 33), (2, 3000)):
        x = torch.randn(shape).to(dtype)
        for scale in (1.0, 0.125, 3.0):
            yield f"{shape} {scale}", (softmax(x, scale), torch.softmax(x.double() * scale, -1))
            yield f"gradient {shape} {scale}", _gradients(x, scale)
