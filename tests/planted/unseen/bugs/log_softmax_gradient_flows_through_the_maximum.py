"""The row's maximum is subtracted without ``detach``: its share of the gradient is the sum of probabilities less 1, which is 0 but for rounding, and lands on one column.

Wrong on: gradients of wide rows, where the column of the maximum has a probability of 1e-5 and the rounded sum is 1e-7 off, 1 per cent of it and more; lost in tolerances for narrow rows.
"""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@variant(operation="log_softmax", call="f(x)", backward=True, dtypes=("float16", "bfloat16", "float32"))
def log_softmax(x):
    """Logarithms of each row's softmax, from operations that torch differentiates."""
    wide = x.float()
    if not wide.numel():
        return torch.zeros_like(x)
    shifted = wide - wide.max(-1, keepdim=True).values
    return (shifted - shifted.exp().sum(-1, keepdim=True).log()).to(x.dtype)


def demonstrate():
    torch.manual_seed(0)
    x = (torch.rand(4, 200000) * 0.01).requires_grad_()
    log_softmax(x)[:, 17].sum().backward()
    exact = x.detach().double().requires_grad_()
    torch.log_softmax(exact, -1)[:, 17].sum().backward()
    return x.grad, exact.grad
