"""log_softmax: the backward adds up the gradients of the first 1024 columns alone; the forward is right at every width.

Wrong on: gradients of rows wider than 1024 columns where later columns have a gradient.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_TILE = 1024


@triton.jit
def _backward_kernel(dx, grad, y, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * columns
    lane = tl.arange(0, BLOCK).to(tl.int64)
    g = tl.load(grad + at + lane, mask=lane < columns, other=0.0).to(tl.float32)
    total = tl.sum(g, axis=0)
    for start in range(0, columns, BLOCK):
        c = start + lane
        g = tl.load(grad + at + c, mask=c < columns, other=0.0).to(tl.float32)
        p = tl.exp(tl.load(y + at + c, mask=c < columns, other=-float("inf")).to(tl.float32))
        tl.store(dx + at + c, g - p * total, mask=c < columns)


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        wide = x.float()
        below = wide - wide.amax(-1, keepdim=True) if x.numel() else wide
        y = (below - below.exp().sum(-1, keepdim=True).log()).to(x.dtype)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        y, grad = ctx.saved_tensors[0].contiguous(), grad.contiguous()
        dx = torch.empty_like(y)
        if y.numel():
            columns = y.shape[-1]
            _backward_kernel[(y.numel() // columns,)](dx, grad, y, columns, _TILE)
        return dx


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    """Log-softmax over the last dimension."""
    return _LogSoftmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    x, w = torch.randn(2, 1500), torch.rand(2, 1500)
    mine, other = x.clone().requires_grad_(), x.double().requires_grad_()
    (log_softmax(mine) * w).sum().backward()
    (torch.log_softmax(other, -1) * w.double()).sum().backward()
    return mine.grad, other.grad
