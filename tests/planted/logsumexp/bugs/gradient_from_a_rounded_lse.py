"""The backward takes exp(x - lse) from the answer as it was rounded to bfloat16: gradients are off by up to 2^-8 of the answer.

From experience: the smallest type for what is saved.
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
        ctx.save_for_backward(x, y.bfloat16().float())
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return (torch.exp(x.float() - y[:, None]) * grad[:, None].float()).to(x.dtype)


@softcheck.variant(operation="logsumexp")
def logsumexp(x):
    return _LogSumExp.apply(x)
