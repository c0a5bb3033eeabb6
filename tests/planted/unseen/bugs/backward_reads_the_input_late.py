"""The backward computes the probabilities once more, from the input as it is by then, which torch's softmax does not need any more.

Wrong on: ``y = softmax(h); h.zero_(); y.backward(...)``, which autograd allows: the input's memory was used for something else.
"""

import torch

EXPECTED = ("wrong_gradient", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


class Recomputing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach()
        return torch.softmax(x, dim=-1)

    @staticmethod
    def backward(ctx, gradient):
        y = torch.softmax(ctx.x.float(), dim=-1)
        gradient = gradient.float()
        return (y * (gradient - (y * gradient).sum(-1, keepdim=True))).to(ctx.x.dtype)


def softmax(x):
    return Recomputing.apply(x)


def demonstrate():
    x = torch.randn(3, 7, requires_grad=True)
    hidden = x * 1.0
    y = softmax(hidden)
    hidden.detach().zero_()
    y.square().sum().backward()
    expected = torch.autograd.grad(torch.softmax(x.double(), -1).square().sum(), x)[0]
    return x.grad, expected.double()
