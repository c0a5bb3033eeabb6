"""A derivative by a backward and one along tangents, of any dimension, into a wider type where one is asked for; empty tensors save what they have."""

import torch

OPERATION = "log_softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim, dtype):
        wide = _wide(x.to(dtype))
        if x.numel():
            wide = wide - wide.amax(dim=dim, keepdim=True)
            wide -= wide.exp().sum(dim=dim, keepdim=True).log()
        y = wide.to(dtype) if x.numel() else torch.empty_like(x, dtype=dtype)
        ctx.save_for_backward(y)
        ctx.save_for_forward(y)
        ctx.dim, ctx.dtype = dim, x.dtype
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        g = _wide(grad)
        return (g - _wide(y).exp() * g.sum(dim=ctx.dim, keepdim=True)).to(ctx.dtype), None, None

    @staticmethod
    def jvp(ctx, tangent, *_):
        (y,) = ctx.saved_tensors
        t = _wide(tangent)
        return (t - (_wide(y).exp() * t).sum(dim=ctx.dim, keepdim=True)).to(y.dtype)


def log_softmax(x, dim=-1, dtype=None):
    """log_softmax of any dimension, with derivatives by a backward and along tangents."""
    return _LogSoftmax.apply(x, dim, x.dtype if dtype is None else dtype)
