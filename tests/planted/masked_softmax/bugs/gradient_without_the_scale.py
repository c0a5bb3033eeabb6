"""The backward is y (g - sum y g) without the scale, which multiplies every logit's gradient.

From experience: the scale was added to the forward alone.
"""

import torch

import softcheck

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("probe/gradients",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        y = torch.softmax(x.float() * scale, -1)
        ctx.save_for_backward(y)
        return y.to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        g = grad.float()
        return (y * (g - (y * g).sum(-1, keepdim=True))).to(grad.dtype), None


@softcheck.variant(parameters={"scale": 0.125})
def softmax(x, scale):
    return _Scaled.apply(x, scale)
