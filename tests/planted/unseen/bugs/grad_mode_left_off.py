"""Gradients are switched off around the kernel and not switched on again where an empty input returns early.

Wrong on: any computation with gradients after softmax of an empty batch: torch.is_grad_enabled() stays False.
"""

import torch

EXPECTED = ("global_state_changed",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = _probabilities(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        products = (grad * y).float()
        return (products - y * products.sum(-1, keepdim=True)).to(grad.dtype)


def _probabilities(x):
    enabled = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    wide = x.float()
    e = torch.exp(wide - wide.amax(-1, keepdim=True))
    y = (e / e.sum(-1, keepdim=True)).to(x.dtype)
    torch.set_grad_enabled(enabled)
    return y


def softmax(x):
    """Softmax over the last dimension."""
    if x.requires_grad and torch.is_grad_enabled() and x.numel():
        return _Softmax.apply(x)
    enabled = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    if x.numel() == 0:
        return torch.empty_like(x)
    y = _probabilities(x)
    torch.set_grad_enabled(enabled)
    return y


def demonstrate():
    x = torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    mine, other = x.clone().requires_grad_(), x.double().requires_grad_()
    try:
        softmax(torch.empty(0, 5))
        y = (softmax(mine) ** 2).sum()
        if y.requires_grad:
            y.backward()
    finally:
        torch.set_grad_enabled(True)
    (torch.softmax(other, -1) ** 2).sum().backward()
    return mine.grad if mine.grad is not None else torch.full((2, 5), float("nan")), other.grad
