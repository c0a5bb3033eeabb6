"""The module keeps outputs for the backward on a stack of its own, which supposes that backwards come in reverse order.

Wrong on: two forwards whose losses are backpropagated first come first served, or a forward whose output is discarded (an evaluation step).
"""

import torch

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_stack = []


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        wide = x.float()
        e = torch.exp(wide - wide.amax(-1, keepdim=True)) if x.numel() else wide.clone()
        p = e / e.sum(-1, keepdim=True)
        if ctx.needs_input_grad[0]:
            # Lighter than save_for_backward, which packs and unpacks; 64 layers at most wait for their backward.
            _stack.append(p)
            del _stack[:-64]
        return p.to(x.dtype, copy=True)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        p = (
            _stack.pop()
            if _stack and _stack[-1].shape == grad.shape
            else next(q for q in reversed(_stack) if q.shape == grad.shape)
        )
        g = grad.float()
        return (p * (g - (p * g).sum(-1, keepdim=True))).to(grad.dtype)


class Softmax(torch.nn.Module):
    """Softmax over the last dimension."""

    def forward(self, x):
        return _Softmax.apply(x)


def softmax(x):
    """Softmax over the last dimension."""
    return Softmax()(x)


def demonstrate():
    torch.manual_seed(0)
    x, w = torch.randn(3, 8), torch.randn(3, 8)
    mine, other = x.clone().requires_grad_(), x.double().requires_grad_()
    y = softmax(mine)
    softmax((3 * x).requires_grad_())
    (y * w).sum().backward()
    (torch.softmax(other, -1) * w.double()).sum().backward()
    return mine.grad, other.grad
