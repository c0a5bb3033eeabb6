"""The answer is kept as an attribute of the context, where autograd does not see that it was changed since.

From experience: dropout in place follows a softmax.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("probe/gradients",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def kernel(out, x, o0, o1, s0, s1, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    v = tl.load(x + row * s0 + c * s1, mask=c < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * o0 + c * o1, e / tl.sum(e, axis=0), mask=c < columns)


@triton.jit
def backward_kernel(dx, y, g, d0, d1, y0, y1, g0, g1, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    y_ = tl.load(y + row * y0 + c * y1, mask=c < columns, other=0.0).to(tl.float32)
    g_ = tl.load(g + row * g0 + c * g1, mask=c < columns, other=0.0).to(tl.float32)
    tl.store(dx + row * d0 + c * d1, y_ * (g_ - tl.sum(y_ * g_, axis=0)), mask=c < columns)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if x.numel():
            kernel[(x.shape[0],)](y, x, *y.stride(), *x.stride(), x.shape[1], triton.next_power_of_2(x.shape[1]))
        ctx.y = y.detach()
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        y = ctx.y
        dx = torch.empty_like(y)
        if y.numel():
            backward_kernel[(y.shape[0],)](
                dx, y, g, *dx.stride(), *y.stride(), *g.stride(), y.shape[1], triton.next_power_of_2(y.shape[1])
            )
        return dx


@variant(operation="softmax", max_columns=65536)
def softmax(x):
    return Softmax.apply(x)
