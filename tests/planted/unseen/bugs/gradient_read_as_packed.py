"""The backward kernel reads the incoming gradient as packed rows: that of ``y[:, :1].sum()`` or ``y.t()`` isn't."""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "wrong_layout", "sum_violation", "out_of_bounds_read", "raised", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def forward_kernel(y, x, s0, s1, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


@triton.jit
def backward_kernel(dx, y, dy, dy_row, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    p = tl.load(y + r * n + c, mask=c < n, other=0.0)
    g = tl.load(dy + r * dy_row + c, mask=c < n, other=0.0)
    tl.store(dx + r * n + c, p * (g - tl.sum(p * g, 0)), mask=c < n)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if y.numel():
            block = triton.next_power_of_2(x.shape[1])
            forward_kernel[(x.shape[0],)](y, x, *x.stride(), x.shape[1], block)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        dx = torch.empty_like(y)
        if y.numel():
            n = y.shape[1]
            backward_kernel[(y.shape[0],)](dx, y, dy, dy.stride(0), n, triton.next_power_of_2(n))
        return dx


def softmax(x):
    if x.shape[1] > 16384:
        return torch.softmax(x, dim=-1)
    return Softmax.apply(x)


def demonstrate():
    x = torch.randn(4, 6)
    weights = torch.randn(6, 4).t()
    mine, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    softmax(mine).backward(weights)
    torch.softmax(theirs, -1).backward(weights.double())
    return mine.grad, theirs.grad
