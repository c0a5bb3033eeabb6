"""The backward sums y g over whole tiles of 64 columns alone: the tail gets a gradient and has no part in the mean.

From experience: the forward's mask was copied and the backward's loop was not.
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
        whole = y.shape[1] // 64 * 64 or y.shape[1]
        return y * (grad - (y * grad)[:, :whole].sum(dim=-1, keepdim=True))


def softmax(x):
    return _Softmax.apply(x)
