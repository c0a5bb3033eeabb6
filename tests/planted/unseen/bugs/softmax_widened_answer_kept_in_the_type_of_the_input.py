"""The answer is kept for the backward in the input's type to spare memory, also where ``dtype`` asks for a wider one.

Wrong on: a 16-bit input, ``dtype=float32``, and a gradient with a large common part, as under a loss scale; right otherwise.
"""

import torch

OPERATION = "softmax"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim, dtype):
        wide = x if x.dtype == torch.float64 else x.float()
        e = (wide - wide.amax(dim=dim, keepdim=True)).exp()
        y = e / e.sum(dim=dim, keepdim=True)
        # Activations stay in the model's type.
        kept = y.to(x.dtype)
        ctx.save_for_backward(kept)
        ctx.dim = dim
        return kept.clone() if dtype in (None, x.dtype) else y.to(dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        wide, g = (y, grad) if torch.float64 in (y.dtype, grad.dtype) else (y.float(), grad.float())
        found = wide * (g - (wide * g).sum(dim=ctx.dim, keepdim=True))
        return found.to(y.dtype), None, None


def softmax(x, dim=-1, dtype=None):
    """Softmax along a dimension; the answer has the input's type, or ``dtype``."""
    if not x.numel():
        return x.clone() if dtype is None else x.to(dtype)
    return _Softmax.apply(x, dim, dtype)


def _gradients(x, g, dtype):
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    softmax(given, dtype=dtype).backward(g)
    torch.softmax(exact, -1).backward(g.double())
    return given.grad, exact.grad


def demonstrate():
    torch.manual_seed(0)
    return _gradients(torch.randn(4, 100).half(), 1000 + torch.randn(4, 100), torch.float32)


def ordinary(dtype):
    x = torch.randn(4, 100).to(dtype)
    yield "answer", (softmax(x), torch.softmax(x.double(), -1))
    yield "wide answer", (softmax(x, dtype=torch.float32), torch.softmax(x.double(), -1))
    yield "gradient", _gradients(x, torch.randn(4, 100).to(dtype), None)
    yield "wide gradient", _gradients(x, torch.randn(4, 100), torch.float32)
