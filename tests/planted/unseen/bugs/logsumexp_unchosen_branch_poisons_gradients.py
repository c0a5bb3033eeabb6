"""Pairs are folded by a stable formula for either order, chosen by ``torch.where``; the gradient flows through the branch that isn't chosen too, where exp overflows, and 0 * inf is NaN.

Wrong on: gradients of rows that hold two logits more than 88 apart, or -inf; the answers are right, and so are gradients of logits near each other.
"""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _folded(a, b):
    d = torch.where((a == b) & a.isinf(), torch.zeros_like(a), a - b)
    return torch.where(d > 0, a + torch.log1p(torch.exp(-d)), b + torch.log1p(torch.exp(d)))


@variant(operation="logsumexp", call="f(x)", backward=True, dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """The logarithm of each row's sum of exponentials, by a tree of pairs."""
    if x.shape[-1] == 0:
        return torch.full(x.shape[:-1], -float("inf"), dtype=x.dtype, device=x.device)
    level = x.float()
    while level.shape[-1] > 1:
        half = level.shape[-1] // 2
        folded = _folded(level[..., :half], level[..., half : 2 * half])
        level = torch.cat([folded, level[..., 2 * half :]], -1)
    return level[..., 0].to(x.dtype)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 30)
    x[1, 7] = -120.0
    x.requires_grad_()
    logsumexp(x).sum().backward()
    return x.grad, torch.softmax(x.detach().double(), -1)
