"""The tangents of a soft cap are kept for the backward in the logits' 16 bits; 1 - tanh^2 has few digits of them, or none, near the cap.

Wrong on: the gradient in 16 bits with a soft cap and logits beyond it; right otherwise.
"""

import math

import torch

OPERATION = "softmax"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


class _Capped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, softcap):
        tangent = torch.tanh(_wide(x) / softcap)
        y = torch.softmax((softcap * tangent).masked_fill(x == -math.inf, -math.inf), dim=-1).to(x.dtype)
        ctx.save_for_backward(y, tangent.to(x.dtype))
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        y, tangent = ctx.saved_tensors
        g, p = _wide(grad), _wide(y)
        of_capped = p * (g - (g * p).sum(dim=-1, keepdim=True))
        return (of_capped * (1 - _wide(tangent).square())).to(y.dtype), None


def softmax(x, softcap=None):
    """Softmax over the last dimension of x, or of softcap * tanh(x / softcap); logits of -inf stay hidden."""
    if not softcap or not x.numel():
        return torch.softmax(_wide(x), dim=-1).to(x.dtype)
    return _Capped.apply(x, softcap)


def demonstrate():
    torch.manual_seed(0)
    x, g = (20 * torch.randn(8, 30)).half(), torch.randn(8, 30).half()
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    softmax(given, softcap=5.0).backward(g)
    torch.softmax(5 * torch.tanh(exact / 5), -1).backward(g.double())
    return given.grad, exact.grad
