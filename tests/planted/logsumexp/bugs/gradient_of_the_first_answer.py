"""The backward scales every row by the first row's gradient: right for a mean or a sum alone.

Report: linkedin/Liger-Kernel#968. "the gradient of a loss is one number".
"""

import torch

import softcheck

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("probe/gradients",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.logsumexp(x.float(), -1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return (torch.exp(x.float() - y[:, None]) * grad[:1, None].float()).to(x.dtype)


@softcheck.variant(operation="logsumexp")
def logsumexp(x):
    return _LogSumExp.apply(x)
