"""To save memory the backward computes the softmax again from the input, and subtracts no maximum there.

From experience: activations are dropped in the forward, and the second copy of the formula is a shorter one.
"""

import torch

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("probe/gradients",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.softmax(x, dim=-1)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        powers = torch.exp(x.float())
        y = powers / powers.sum(dim=-1, keepdim=True)
        wide = g.float()
        return (y * (wide - (y * wide).sum(dim=-1, keepdim=True))).to(x.dtype)


def softmax(x):
    return _Softmax.apply(x)
