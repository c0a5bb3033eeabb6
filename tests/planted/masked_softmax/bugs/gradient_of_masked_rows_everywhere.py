"""The backward divides by the smallest row sum of the whole batch: one fully masked row makes every gradient NaN.

Report: pytorch/pytorch#41508. 0 times NaN, spread by a reduction over the batch.
"""

import torch

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("probe/gradients",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        y = torch.softmax(x.float().masked_fill(mask, -torch.inf), -1)
        ctx.save_for_backward(y)
        return y.to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        g = grad.float() / y.sum(-1).amin()
        return (y * (g - (y * g).sum(-1, keepdim=True))).to(grad.dtype), None


def softmax(x, mask):
    return _Masked.apply(x, mask)
