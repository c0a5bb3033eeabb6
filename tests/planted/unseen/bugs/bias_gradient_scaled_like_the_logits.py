"""The softmax of x / 8 + bias gives one gradient to both operands: the bias gets that of the logits, with the factor 1 / 8 that isn't its own.

Wrong on: a learnt bias, such as that of relative positions, which is added behind the scale and learns 8 times too slowly; the output and the gradient of ``x`` are right.
"""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_SCALE = 0.125


class _BiasedSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        y = torch.softmax(x.float() * _SCALE + bias.float(), -1)
        ctx.save_for_backward(y)
        ctx.of_bias = bias.dtype
        return y.to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        of_y = grad.float()
        dx = y * (of_y - (y * of_y).sum(-1, keepdim=True)) * _SCALE
        return dx.to(grad.dtype), dx.to(ctx.of_bias)


@variant(
    parameters={"scale": _SCALE},
    call="f(x, bias)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def softmax(x, bias):
    """Softmax of x / 8 + bias in each row, with gradients for both."""
    return _BiasedSoftmax.apply(x, bias)


def demonstrate():
    torch.manual_seed(0)
    x, w = torch.randn(5, 30), torch.randn(5, 30)
    bias = torch.randn(5, 30, requires_grad=True)
    (softmax(x, bias) * w).sum().backward()
    exact = bias.detach().double().requires_grad_()
    (torch.softmax(x.double() * _SCALE + exact, -1) * w.double()).sum().backward()
    return bias.grad, exact.grad
