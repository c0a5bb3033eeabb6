"""The backward returns the probabilities without the gradient of the answer, as if it were 1.

From experience: ``logsumexp(x).sum().backward()`` was the test.
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
        return (torch.exp(x.float() - y[:, None])).to(x.dtype)


@softcheck.variant(operation="logsumexp")
def logsumexp(x):
    return _LogSumExp.apply(x)
