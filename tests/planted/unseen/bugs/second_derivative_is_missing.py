"""The backward is computed from detached probabilities: first derivatives are right, and those of a gradient penalty lack a term.

Wrong on: ``torch.autograd.grad(..., create_graph=True)`` and a second backward, as gradient penalties and meta-learning take it.
"""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


class OnceOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.y = y.detach()
        return y

    @staticmethod
    def backward(ctx, gradient):
        y = ctx.y
        return y * (gradient - (y * gradient).sum(-1, keepdim=True))


@variant(backward=True)
def softmax(x):
    return OnceOnly.apply(x)


def second(function, x, weights):
    first = torch.autograd.grad((function(x) * weights).sum(), x, create_graph=True)[0]
    return torch.autograd.grad(first.square().sum() + x.square().sum(), x)[0]


def demonstrate():
    x = torch.randn(3, 7, requires_grad=True)
    weights = torch.randn(3, 7, requires_grad=True)
    wide = x.detach().double().requires_grad_()
    return second(softmax, x, weights), second(lambda z: torch.softmax(z, -1), wide, weights.detach().double())
