"""The derivative along a tangent sums over the last dimension, whatever dimension the log_softmax is of; the backward has the right one.

Wrong on: forward mode over another dimension than the last; right otherwise.
"""

import torch
from torch.autograd import forward_ad

OPERATION = "log_softmax"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        wide = _wide(x)
        shifted = wide - wide.amax(dim=dim, keepdim=True)
        y = (shifted - shifted.exp().sum(dim=dim, keepdim=True).log()).to(x.dtype)
        ctx.save_for_backward(y)
        ctx.save_for_forward(y)
        ctx.dim = dim
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        g = _wide(grad)
        return (g - _wide(y).exp() * g.sum(dim=ctx.dim, keepdim=True)).to(y.dtype), None

    @staticmethod
    def jvp(ctx, tangent, _):
        (y,) = ctx.saved_tensors
        t = _wide(tangent)
        return (t - (_wide(y).exp() * t).sum(dim=-1, keepdim=True)).to(y.dtype)


def log_softmax(x, dim=-1):
    """log_softmax of any dimension, with derivatives by a backward and along tangents."""
    if not x.numel():
        return torch.log_softmax(x, dim)
    return _LogSoftmax.apply(x, dim)


def demonstrate():
    torch.manual_seed(0)
    x, t = torch.randn(5, 6), torch.randn(5, 6)
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(log_softmax(forward_ad.make_dual(x, t), 0)).tangent
    p = torch.softmax(x.double(), 0)
    return found, t.double() - (p * t.double()).sum(0, keepdim=True)
