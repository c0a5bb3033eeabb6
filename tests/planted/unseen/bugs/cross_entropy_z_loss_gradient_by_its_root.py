"""Forward keeps each row's z-loss for the backward, which gets the log-sum-exp back as the root of it: always positive.

Wrong on: the gradient of rows whose log-sum-exp is below 0 (logits around -10): the z-loss drives it further down. Losses are right, and gradients of others.
"""

import torch
from torch.nn import functional

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_Z = 1e-2


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        wide = x.float()
        lse = torch.logsumexp(wide, -1)
        z = _Z * lse.square()
        is_column = (target >= 0) & (target < x.shape[1])
        place = torch.where(is_column, target, 0)[:, None]
        ctx.save_for_backward(x, place, z)
        losses = -torch.log_softmax(wide, -1).gather(1, place)[:, 0] + z
        return torch.where(is_column, losses, float("nan"))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, of_loss):
        x, place, z = ctx.saved_tensors
        p = torch.softmax(x.float(), -1)
        # d/dx (z lse^2) = 2 z lse p, and z lse = sqrt(z * z lse^2).
        gradient = p * (1.0 + 2.0 * torch.sqrt(_Z * z))[:, None]
        gradient.scatter_add_(1, place, gradient.new_full((x.shape[0], 1), -1.0))
        return (gradient * of_loss.float()[:, None]).to(x.dtype), None


@variant(
    operation="cross_entropy",
    parameters={"z_loss": _Z},
    call="f(x, target)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row, and 0.01 times its squared log-sum-exp, with a backward; float32 [rows]."""
    return _CrossEntropy.apply(x, target)


def _both(dtype, level):
    x, target = (torch.randn(4, 33) + level).to(dtype).requires_grad_(), torch.tensor([0, 3, 32, 5])
    cross_entropy(x, target).sum().backward()
    w = x.detach().double().requires_grad_()
    (functional.cross_entropy(w, target, reduction="none") + _Z * torch.logsumexp(w, -1) ** 2).sum().backward()
    return x.grad, w.grad


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.float32, -10.0)


def ordinary(dtype):
    return _both(dtype, 0.0)
