"""Logits that were expanded are one row, whose softmax is computed once; so is its gradient, though the gradient of the output differs from row to row.

Wrong on: gradients behind ``logits.expand(rows, -1)`` where each row goes into a loss of its own. Outputs, and rows in memory of their own, are right."""

import torch
import triton
import triton.language as tl

EXPECTED = ("wrong_gradient", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(v, 0))
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        mass += tl.exp(v - peak)
    whole = tl.sum(mass, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


@triton.jit
def _gradient(dx, g, y, g_row_step, g_column_step, y_row_step, y_column_step, n, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    p = tl.load(y + r * y_row_step + c * y_column_step, mask=c < n, other=0.0).to(tl.float32)
    of_y = tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
    tl.store(dx + r * n + c, p * (of_y - tl.sum(p * of_y, 0)), mask=c < n)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.repeated = x.shape[0] > 1 and x.stride(0) == 0
        rows = x[:1] if ctx.repeated else x
        y = torch.empty(rows.shape, dtype=x.dtype, device=x.device)
        if y.numel():
            _rows[(rows.shape[0],)](y, rows, *rows.stride(), x.shape[1], min(1024, triton.next_power_of_2(x.shape[1])))
        ctx.save_for_backward(y)
        # Each row has memory of its own, as the caller expects.
        return y.expand(x.shape).contiguous() if ctx.repeated else y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
        if dx.numel():
            steps = (*grad.stride(), *y.stride())
            _gradient[(y.shape[0],)](dx, grad, y, *steps, y.shape[1], triton.next_power_of_2(y.shape[1]))
        return dx.expand(grad.shape)


def softmax(x):
    return _Softmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    base, w = torch.randn(1, 20), torch.randn(5, 20)
    own, exact = base.clone().requires_grad_(), base.double().requires_grad_()
    (softmax(own.expand(5, -1)) * w).sum().backward()
    (torch.softmax(exact.expand(5, -1), -1) * w.double()).sum().backward()
    return own.grad, exact.grad
