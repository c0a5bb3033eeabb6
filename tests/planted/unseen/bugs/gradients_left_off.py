"""Switches gradients off for the time of a wide call and on the way out of its split path forgets to restore them.

Wrong on: anything that needs gradients after a call of more than 8192 columns: outputs of this function, and the caller's own, have none.
"""

import torch

EXPECTED = ("global_state_changed", "wrong_gradient", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.shape[1] <= 8192 or x.requires_grad:
        return torch.softmax(x, -1)
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    wide = x.float()
    top = wide.amax(1, keepdim=True)
    parts = wide.split(4096, 1)
    if len(parts) > 2:
        total = sum(torch.exp(part - top).sum(1, keepdim=True) for part in parts)
        return (torch.exp(wide - top) / total).to(x.dtype)
    torch.set_grad_enabled(before)
    return torch.softmax(x, -1)


def demonstrate():
    softmax(torch.randn(1, 9000))
    weights = torch.randn(4, 5, requires_grad=True)
    gradient = torch.autograd.grad(softmax(weights).square().sum(), weights) if softmax(weights).requires_grad else None
    torch.set_grad_enabled(True)
    expected = torch.autograd.grad(torch.softmax(weights.double(), -1).square().sum(), weights)[0].double()
    return torch.zeros(4, 5) if gradient is None else gradient[0], expected
