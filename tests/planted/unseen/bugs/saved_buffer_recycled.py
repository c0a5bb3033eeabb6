"""The backward writes the gradient over the float32 probabilities that it saved, so it is right only once.

Wrong on: a second backward through the same graph, backward(retain_graph=True) or two torch.autograd.grad calls (a Jacobian row by row).
"""

import torch

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        wide = x.float()
        e = torch.exp(wide - wide.amax(-1, keepdim=True)) if x.numel() else wide.clone()
        p = e / e.sum(-1, keepdim=True)
        # Float32 probabilities, for a gradient that is better than one from a rounded output.
        ctx.probabilities, ctx.dtype = p, x.dtype
        return p.to(x.dtype, copy=True)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        p, g = ctx.probabilities, grad.float()
        mean = (p * g).sum(-1, keepdim=True)
        return p.mul_(g - mean).to(ctx.dtype, copy=True)


def softmax(x):
    """Softmax over the last dimension."""
    return _Softmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    x, w = torch.randn(3, 8), torch.randn(3, 8)
    mine, other = x.clone().requires_grad_(), x.double().requires_grad_()
    y = softmax(mine)
    torch.autograd.grad((y * w).sum(), mine, retain_graph=True)
    got = torch.autograd.grad((y * w).sum(), mine)[0]
    return got, torch.autograd.grad((torch.softmax(other, -1) * w.double()).sum(), other)[0]
