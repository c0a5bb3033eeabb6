"""Column-major input is handled as its transpose; whether the gradient must be turned back is told by its shape, which a square hides.

Wrong on: the gradient of ``scores.t()`` with as many rows as columns; the forward, and the gradient of any other shape, are right.
"""

import torch

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


class ColumnMajor(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        flat = torch.softmax(x.t(), dim=0)
        ctx.save_for_backward(flat)
        ctx.shape = x.shape
        return flat.t().contiguous()

    @staticmethod
    def backward(ctx, gradient):
        (flat,) = ctx.saved_tensors
        turned = gradient.t()
        result = flat * (turned - (flat * turned).sum(0, keepdim=True))
        return result if result.shape == ctx.shape else result.t()


def softmax(x):
    if x.dim() == 2 and x.requires_grad and x.stride(0) == 1 and x.stride(1) > 1:
        return ColumnMajor.apply(x)
    return torch.softmax(x, -1)


def demonstrate():
    x = torch.randn(6, 6, requires_grad=True)
    weights = torch.randn(6, 6)
    (softmax(x.t()) * weights).sum().backward()
    expected = torch.autograd.grad((torch.softmax(x.double().t(), -1) * weights).sum(), x)[0]
    return x.grad, expected.double()
