"""The probabilities are saved as they are before rounding. In 16 bits these are no output, so that a second derivative takes them for a constant.

Wrong on: the gradient of a gradient in float16 and bfloat16; right otherwise, also in float32, where they are the output.
"""

import torch

OPERATION = "softmax"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16",)
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        if x.shape[dim] == 0:
            wide = _wide(x).clone()
        else:
            e = (_wide(x) - _wide(x).amax(dim=dim, keepdim=True)).exp()
            wide = e / e.sum(dim=dim, keepdim=True)
        y = wide.to(x.dtype)
        ctx.save_for_backward(wide)
        ctx.dim, ctx.dtype = dim, x.dtype
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        g = _wide(grad)
        return (y * (g - (g * y).sum(dim=ctx.dim, keepdim=True))).to(ctx.dtype), None


def softmax(x, dim=-1):
    """Softmax over any dimension that may be differentiated twice; gradients in 16 bits lose no more than their own rounding."""
    if x.dim() == 0:
        return torch.ones_like(x)
    if torch.is_grad_enabled() and x.requires_grad:
        return _Softmax.apply(x, dim % x.dim())
    return torch.softmax(x if x.dtype == torch.float64 else x.float(), dim).to(x.dtype)


def _second(function, x, g, h):
    x = x.clone().requires_grad_()
    y = function(x)
    (d,) = torch.autograd.grad(y, x, g, create_graph=True)
    return torch.autograd.grad(((y + d) * h).sum(), x)[0]


def demonstrate():
    torch.manual_seed(0)
    x, g, h = torch.randn(3, 4, 10).bfloat16()
    return _second(softmax, x, g, h), _second(lambda x: torch.softmax(x, -1), x.double(), g.double(), h.double())
