"""An autograd function with a backward pass of its own, which takes any strides and computes in float32."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class ByHand(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x.float(), dim=-1)
        ctx.save_for_backward(y)
        return y.to(x.dtype, copy=True)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        g = grad.float()
        return (y * (g - (y * g).sum(-1, keepdim=True))).to(grad.dtype)


def softmax(x):
    return ByHand.apply(x)
