"""An autograd function whose backward is made of operations that autograd knows, of the saved output: a second backward is right too."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


class Twice(torch.autograd.Function):
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
    return Twice.apply(x)
