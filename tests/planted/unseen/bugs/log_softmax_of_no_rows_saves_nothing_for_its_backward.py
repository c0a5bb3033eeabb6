"""A tensor without elements is answered before anything is saved, and the backward unpacks what is not there.

Wrong on: the gradient of an empty tensor, as of an expert without tokens; right otherwise.
"""

import torch

OPERATION = "log_softmax"
EXPECTED = ("raised", "empty_refused", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        if not x.numel():
            return x.clone()
        wide = _wide(x)
        shifted = wide - wide.amax(dim=-1, keepdim=True)
        y = (shifted - shifted.exp().sum(dim=-1, keepdim=True).log()).to(x.dtype)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        g = _wide(grad)
        return (g - _wide(y).exp() * g.sum(dim=-1, keepdim=True)).to(y.dtype)


def log_softmax(x):
    """log_softmax of the last dimension, with a backward that keeps the answer alone."""
    return _LogSoftmax.apply(x)


def demonstrate():
    x = torch.empty(0, 30, requires_grad=True)
    try:
        log_softmax(x).sum().backward()
    except ValueError:
        return torch.full((1,), torch.nan), torch.zeros(1).double()
    return x.grad, torch.zeros(0, 30).double()
