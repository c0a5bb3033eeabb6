"""The forward computes the gradient for 1 and keeps it; the backward multiplies it in place, so that a second backward multiplies once more.

Wrong on: two backwards of one loss (retain_graph=True) with a gradient of 3: the second gives 9 times. Right for one backward.
"""

import torch
from torch.nn import functional

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        logarithms = torch.log_softmax(x.float(), -1)
        chosen = target.long()[:, None]
        ctx.gradient = torch.exp(logarithms).scatter_add_(1, chosen, torch.full_like(logarithms[:, :1], -1.0))
        ctx.dtype = x.dtype
        return -logarithms.gather(1, chosen)[:, 0]

    @staticmethod
    def backward(ctx, of_loss):
        gradient = ctx.gradient.mul_(of_loss[:, None])
        return gradient.to(ctx.dtype, copy=True), None


@variant(operation="cross_entropy", call="f(x, target)", backward=True, dtypes=("float16", "bfloat16", "float32"))
def cross_entropy(x, target):
    """Cross-entropy of each row, whose gradient is computed in the forward."""
    return _CrossEntropy.apply(x, target)


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(4, 10, requires_grad=True), torch.tensor([0, 3, 9, 5])
    loss = cross_entropy(x, target)
    torch.autograd.grad(loss, x, torch.full_like(loss, 3.0), retain_graph=True)
    (got,) = torch.autograd.grad(loss, x, torch.full_like(loss, 3.0), retain_graph=True)
    w = x.detach().double().requires_grad_()
    (3 * functional.cross_entropy(w, target, reduction="none")).sum().backward()
    return got, w.grad
