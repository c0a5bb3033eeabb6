"""The backward is that of the cross-entropy alone: the gradient of the z-loss, 2 z lse p, is left out.

Wrong on: gradients with a z-loss of 1e-3, by 2 to 4 per cent of a probability where the log-sum-exp is 10 to 20; the losses are right.
"""

import torch
from torch.nn import functional

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_Z_LOSS = 1e-3


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        lse = torch.logsumexp(x.float(), -1)
        ctx.save_for_backward(x, target, lse)
        nll = -torch.log_softmax(x.float(), -1).gather(1, target.long()[:, None])[:, 0]
        return nll + _Z_LOSS * lse**2

    @staticmethod
    def backward(ctx, of_loss):
        x, target, lse = ctx.saved_tensors
        gradient = torch.exp(x.float() - lse[:, None])
        gradient.scatter_add_(1, target.long()[:, None], torch.full_like(gradient[:, :1], -1.0))
        return (gradient * of_loss[:, None]).to(x.dtype), None


@variant(
    operation="cross_entropy",
    parameters={"z_loss": _Z_LOSS},
    call="f(x, target)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row, and 1e-3 times its squared log-sum-exp, with a backward."""
    return _CrossEntropy.apply(x, target)


def demonstrate():
    torch.manual_seed(0)
    x, target = (torch.randn(4, 50) + 10).requires_grad_(), torch.tensor([0, 3, 49, 5])
    cross_entropy(x, target).sum().backward()
    w = x.detach().double().requires_grad_()
    (functional.cross_entropy(w, target, reduction="none") + _Z_LOSS * torch.logsumexp(w, -1) ** 2).sum().backward()
    return x.grad, w.grad
