"""An ``autograd.Function`` whose backward is y (g - sum y g), computed in float32; inputs without gradients take the same forward."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "bfloat16")
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
        weighted = y.float() * grad.float()
        return (weighted - y.float() * weighted.sum(dim=-1, keepdim=True)).to(y.dtype)


def softmax(x):
    return _Softmax.apply(x)
