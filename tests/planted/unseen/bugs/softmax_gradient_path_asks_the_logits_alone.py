"""The path that keeps what a backward needs is taken where the logits require a gradient; that of a bias is not asked for.

Wrong on: a bias that requires a gradient beside logits that do not, as of a frozen model with a learnt position bias; right otherwise.
"""

import torch

OPERATION = "softmax"
EXPECTED = ("wrong_gradient", "raised")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


def _forward(x, bias):
    e = _wide(x).clone()
    if bias is not None:
        e += bias
    e -= e.amax(dim=-1, keepdim=True)
    e.exp_()
    return e.div_(e.sum(dim=-1, keepdim=True)).to(x.dtype)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        y = _forward(x, bias)
        ctx.save_for_backward(y)
        ctx.of_bias = None if bias is None else (bias.shape, bias.dtype)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        wide, g = _wide(y), _wide(grad)
        dx = wide * (g - (g * wide).sum(dim=-1, keepdim=True))
        by_bias = None
        if ctx.of_bias is not None and ctx.needs_input_grad[1]:
            by_bias = dx.sum_to_size(ctx.of_bias[0]).to(ctx.of_bias[1])
        return dx.to(y.dtype), by_bias


def softmax(x, bias=None):
    """Softmax of x + bias over the last dimension; the bias may be broadcast, and learnt."""
    if not x.numel():
        return x.clone()
    if torch.is_grad_enabled() and x.requires_grad:
        return _Softmax.apply(x, bias)
    with torch.no_grad():
        return _forward(x, bias)


def demonstrate():
    torch.manual_seed(0)
    x, bias, g = torch.randn(4, 30), torch.randn(4, 30, requires_grad=True), torch.randn(4, 30)
    y = softmax(x, bias)
    found = torch.zeros(4, 30) if not y.requires_grad else torch.autograd.grad(y, bias, g)[0]
    p, g = torch.softmax(x.double() + bias.detach().double(), -1), g.double()
    return found, p * (g - (g * p).sum(-1, keepdim=True))
