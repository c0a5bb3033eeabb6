"""The probabilities for the backward lie in a buffer of the module: with two forwards before it, the first one's are gone.

From experience: one layer in the test, two in the model.
"""

import torch

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("probe/gradients",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_saved = {}


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        _saved[x.shape] = y.detach()
        ctx.shape = x.shape
        return y

    @staticmethod
    def backward(ctx, grad):
        y = _saved[ctx.shape]
        return y * (grad - (y * grad).sum(dim=-1, keepdim=True))


def softmax(x):
    return _Softmax.apply(x)
