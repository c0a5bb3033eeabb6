"""A gradient with a stride of 0 is taken for one that is constant along each row, as that of ``y.sum()``, whose answer is 0.

Wrong on: ``y.sum(0)``, as a router's load of each expert: there the stride of rows is 0, and the gradient along a row varies. ``y.mean(0)`` is right.
"""

import torch

OPERATION = "softmax"
EXPECTED = ("wrong_gradient", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        y = torch.softmax(x.float(), dim).to(x.dtype)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, above):
        (y,) = ctx.saved_tensors
        if 0 in above.stride() and above.isfinite().all() and y.isfinite().all():
            # sum(y) is 1 whatever x is.
            return torch.zeros_like(y), None
        wide, g = y.float(), above.float()
        return (wide * (g - (wide * g).sum(ctx.dim, keepdim=True))).to(y.dtype), None


def softmax(x, dim=-1):
    """Softmax in float32 inside, with a backward that keeps the output alone."""
    return _Softmax.apply(x, dim)


def _gradients(x, loss):
    given, exact = x.detach().clone().requires_grad_(), x.detach().double().requires_grad_()
    loss(softmax(given)).backward()
    loss(torch.softmax(exact, -1)).backward()
    return given.grad, exact.grad


def demonstrate():
    weights = torch.randn(16)
    return _gradients(torch.randn(40, 16), lambda y: (y.sum(0) * weights.to(y.dtype)).sum())


def ordinary(dtype):
    x, weights = torch.randn(6, 90).to(dtype), torch.randn(6, 90).to(dtype)
    yield "forward", (softmax(x), torch.softmax(x.double(), -1))
    yield "product", _gradients(x, lambda y: (y * weights.to(y.dtype)).sum())
    yield "mean", _gradients(x, lambda y: (y.mean(0) * weights[0].to(y.dtype)).sum())
    yield "rows", _gradients(x, lambda y: (y.square() * weights.to(y.dtype)).sum())
