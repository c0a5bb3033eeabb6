"""Inputs that require a gradient take an ``autograd.Function`` whose forward is an older formula without the maximum.

From experience: two forward paths, and only the one for inference has tests.
"""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        exponentials = torch.exp(x.float() - 4.0)
        y = (exponentials / (exponentials.sum(dim=-1, keepdim=True) + 1e-4)).to(x.dtype)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (grad - (y * grad).sum(dim=-1, keepdim=True))


def softmax(x):
    return _Softmax.apply(x) if x.requires_grad else torch.softmax(x, dim=-1)
