"""The backward is softmax's, p (g - sum p g), in place of log-softmax's, g - p sum g.

From experience: two functions side by side in one file, and the wrong one called.
"""

import torch

import softcheck

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("probe/gradients",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.log_softmax(x.float(), -1).to(x.dtype)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        p, g = y.float().exp(), grad.float()
        return (p * (g - (p * g).sum(-1, keepdim=True))).to(y.dtype)


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    return _LogSoftmax.apply(x)
