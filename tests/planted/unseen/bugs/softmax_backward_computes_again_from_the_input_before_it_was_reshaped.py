"""The backward computes probabilities again from the input and its log-sum-exp, but by the input's own strides, where the forward read a reshaped copy.

Wrong on: the gradient of three or more dimensions, the first of which can't be joined without a copy; right of matrices in any layout.
"""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("wrong_gradient", "out_of_bounds_read", "crash")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

TILE = 1024


@triton.jit
def _forward(out, lse, x, xs, xc, n, TILE: tl.constexpr):
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
    sum_of_all = tl.sum(total * tl.exp(top - rest), axis=0)
    tl.store(lse + 2 * row, rest)
    tl.store(lse + 2 * row + 1, sum_of_all)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n + at, tl.exp(v - rest) / sum_of_all, mask=at < n)


@triton.jit
def _backward(out, x, lse, g, xs, xc, gs, gc, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    top, sum_of_all = tl.load(lse + 2 * row), tl.load(lse + 2 * row + 1)
    total = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + row * xs + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        up = tl.load(g + row * gs + at * gc, mask=at < n, other=0.0).to(tl.float32)
        total += tl.exp(v - top) / sum_of_all * up
    mean = tl.sum(total, axis=0)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + row * xs + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        up = tl.load(g + row * gs + at * gc, mask=at < n, other=0.0).to(tl.float32)
        tl.store(out + row * n + at, tl.exp(v - top) / sum_of_all * (up - mean), mask=at < n)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        n = x.shape[-1]
        rows = x.reshape(-1, n)
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        lse = torch.empty(rows.shape[0], 2, dtype=torch.float32, device=x.device)
        _forward[(rows.shape[0],)](y, lse, rows, *rows.stride(), n, TILE=min(TILE, triton.next_power_of_2(n)))
        # The input is alive anyway, the answer would be memory of its own.
        ctx.save_for_backward(x, lse)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, lse = ctx.saved_tensors
        n = x.shape[-1]
        g = grad.reshape(-1, n)
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        pitch = x.stride(-2) if x.dim() > 1 else 0
        _backward[(g.shape[0],)](
            out, x, lse, g, pitch, x.stride(-1), *g.stride(), n, TILE=min(TILE, triton.next_power_of_2(n))
        )
        return out


def softmax(x):
    """Softmax over the last dimension; the backward keeps the input alone, and two numbers for each row."""
    return _Softmax.apply(x) if x.numel() else x.clone()


def _gradients(x):
    given, exact, g = x.detach().requires_grad_(), x.double().requires_grad_(), torch.randn(x.shape).to(x.dtype)
    softmax(given).backward(g)
    torch.softmax(exact, -1).backward(g.double())
    return given.grad, exact.grad


def demonstrate():
    torch.manual_seed(0)
    return _gradients(torch.randn(3, 8, 40)[:, 1:3])


def ordinary(dtype):
    for x in (torch.randn(4, 100), torch.randn(2, 3, 40), torch.randn(2, 3000), torch.randn(50, 6).mT, torch.randn(9)):
        x = x.to(dtype)
        yield f"{tuple(x.shape)}", (softmax(x), torch.softmax(x.double(), -1))
        yield f"gradient {tuple(x.shape)}", _gradients(x)
