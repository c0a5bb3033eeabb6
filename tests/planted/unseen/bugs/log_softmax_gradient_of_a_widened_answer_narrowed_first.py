"""The gradient of an answer in float32 is cast to the type of the input before anything else: under a loss scale it is beyond float16.

Wrong on: a wider ``dtype=``, whose gradient is beyond 65504 while that of the input is not; right otherwise.
"""

import torch

OPERATION = "log_softmax"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim, dtype):
        wide = _wide(x if dtype is None else x.to(dtype))
        shifted = wide - wide.amax(dim=dim, keepdim=True)
        y = (shifted - shifted.exp().sum(dim=dim, keepdim=True).log()).to(x.dtype if dtype is None else dtype)
        ctx.save_for_backward(y)
        ctx.dim, ctx.dtype = dim, x.dtype
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        g = _wide(grad.to(ctx.dtype))
        return (g - _wide(y).exp() * g.sum(dim=ctx.dim, keepdim=True)).to(ctx.dtype), None, None


def log_softmax(x, dim=-1, dtype=None):
    """log_softmax of a dimension, in another type where one is asked for."""
    if not x.numel():
        return torch.log_softmax(x, dim, dtype=dtype)
    return _LogSoftmax.apply(x, dim, dtype)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(3, 20).half()
    x[:, 4] = 6.0
    x.requires_grad_()
    g = torch.zeros(3, 20)
    g[:, 4] = -131072.0
    log_softmax(x, dtype=torch.float32).backward(g)
    p, wide = torch.softmax(x.detach().double(), -1), g.double()
    return x.grad, wide - p * wide.sum(-1, keepdim=True)
