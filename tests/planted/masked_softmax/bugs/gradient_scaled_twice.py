"""The gradient is multiplied by the scale in the kernel, and by autograd once more.

From experience: the scaled logits were made by torch, and the backward written for the unscaled ones.
"""

import torch

import softcheck

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("probe/gradients",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scaled, scale):
        y = torch.softmax(scaled, -1)
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return ctx.scale * y * (grad - (y * grad).sum(-1, keepdim=True)), None


@softcheck.variant(parameters={"scale": 0.125})
def softmax(x, scale):
    return _Softmax.apply(x.float() * scale, scale).to(x.dtype)
