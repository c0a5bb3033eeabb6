"""RIGHT: an autograd function that saves its input and computes the output again in the backward, which itself has a derivative.

Unusual in: nothing of the forward is kept; all in float64, gradients of any strides, second derivatives by composition.
"""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _probabilities(x):
    wide = x.double()
    if not x.numel():
        return wide * 1.0
    e = torch.exp(wide - wide.detach().amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return _probabilities(x).to(x.dtype, memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        p, g = _probabilities(x), grad.double()
        return (p * (g - (p * g).sum(-1, keepdim=True))).to(x.dtype)


class Softmax(torch.nn.Module):
    """Softmax over the last dimension."""

    def forward(self, x):
        return _Softmax.apply(x)


def softmax(x):
    """Softmax over the last dimension."""
    return Softmax()(x)
