"""The path with a backward is taken for leaves, which the author's test has; a hidden layer's output takes the one without.

Wrong on: the softmax of any computed tensor, ``softmax(layer(x))``: the output carries no gradient. A leaf's gradient is right.
"""

import torch

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return y * (gradient - (y * gradient).sum(-1, keepdim=True))


def softmax(x):
    if x.requires_grad and x.grad_fn is None:
        return Softmax.apply(x)
    return torch.softmax(x.detach(), dim=-1)


def demonstrate():
    x = torch.randn(3, 7, requires_grad=True)
    (softmax(2.0 * x).square().sum() + 0.0 * x.sum()).backward()
    expected = torch.autograd.grad(torch.softmax(2.0 * x.double(), -1).square().sum(), x)[0]
    return x.grad, expected.double()
