"""The backward is y (1 - y) g, the derivative of one probability by its own logit: what flows to the others is lost.

From experience: the diagonal of the Jacobian taken for all of it.
"""

import torch

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("probe/gradients",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (1 - y) * grad


def softmax(x):
    return _Softmax.apply(x)
