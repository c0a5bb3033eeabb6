"""Without gradients the input is detached by ``detach_()``, which takes the caller's own tensor out of its graph.

Wrong on: ``with torch.no_grad(): p = softmax(hidden)`` before ``hidden`` is used in a loss: its backward fails or misses ``hidden``'s part.
"""

import torch

EXPECTED = ("global_state_changed", "wrong_gradient", "raised", "input_modified")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if not torch.is_grad_enabled() and x.requires_grad and not x.is_leaf and not x._is_view():
        x.detach_()
    return torch.softmax(x, -1)


def demonstrate():
    weights = torch.randn(3, 7, requires_grad=True)
    hidden = weights * 2.0
    with torch.no_grad():
        softmax(hidden)
    loss = hidden.square().sum() + 0.0 * weights.sum()
    gradient = torch.autograd.grad(loss, weights)[0]
    return gradient, 8.0 * weights.detach().double()
