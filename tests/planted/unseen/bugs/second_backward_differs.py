"""The backward works in place on the copy of the probabilities that the forward kept for it: a second backward finds gradients there.

Wrong on: two backwards through one forward, by ``retain_graph=True`` or one for each of two losses; the first is right.
"""

import torch

EXPECTED = ("wrong_gradient", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.kept = y.float().clone()
        return y

    @staticmethod
    def backward(ctx, gradient):
        inner = (ctx.kept * gradient).sum(-1, keepdim=True)
        return ctx.kept.mul_(gradient - inner).to(gradient.dtype, copy=True)


def softmax(x):
    return InPlace.apply(x)


def demonstrate():
    x = torch.randn(3, 7, requires_grad=True)
    y = softmax(x)
    torch.autograd.grad(y[:, 0].sum(), x, retain_graph=True)
    second = torch.autograd.grad(y[:, 1].sum(), x)[0]
    return second, torch.autograd.grad(torch.softmax(x.double(), -1)[:, 1].sum(), x)[0].double()
