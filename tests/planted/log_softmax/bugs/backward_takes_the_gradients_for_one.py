"""The backward takes the sum of the output gradients for its sign, 1 or -1, as a loss with one target per row has it.

From experience: a loss's backward is cut out, and its grad_out of one-hot rows goes with it.
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
        g = grad.float()
        return (g - y.float().exp() * g.sum(-1, keepdim=True).sign()).to(y.dtype)


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    return _LogSoftmax.apply(x)
