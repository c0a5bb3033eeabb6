"""The backward gives the gradient by the capped logits: the factor 1 - tanh(x / 30)^2 is left out.

Wrong on: gradients at logits of 10 to 40 with a soft cap of 30 (by a factor of 1.1 to 4); for randn it is a thousandth, and the losses are right.
"""

import torch
from torch.nn import functional

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_CAP = 30.0


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        capped = _CAP * torch.tanh(x.float() / _CAP)
        logarithms = torch.log_softmax(capped, -1)
        ctx.save_for_backward(logarithms, target)
        ctx.dtype = x.dtype
        return -logarithms.gather(1, target.long()[:, None])[:, 0]

    @staticmethod
    def backward(ctx, of_loss):
        logarithms, target = ctx.saved_tensors
        gradient = torch.exp(logarithms)
        gradient.scatter_add_(1, target.long()[:, None], torch.full_like(gradient[:, :1], -1.0))
        return (gradient * of_loss[:, None]).to(ctx.dtype), None


@variant(
    operation="cross_entropy",
    parameters={"softcap": _CAP},
    call="f(x, target)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row of 30 tanh(x / 30), with a backward."""
    return _CrossEntropy.apply(x, target)


def demonstrate():
    torch.manual_seed(0)
    x, target = (torch.randn(3, 20) * 12).requires_grad_(), torch.tensor([2, 9, 5])
    cross_entropy(x, target).sum().backward()
    w = x.detach().double().requires_grad_()
    functional.cross_entropy(_CAP * torch.tanh(w / _CAP), target, reduction="sum").backward()
    return x.grad, w.grad
