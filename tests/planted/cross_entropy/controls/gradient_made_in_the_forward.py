"""The forward makes the gradient for a loss of 1, in float32 and in memory of its own; the backward scales and rounds it."""

import torch

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        gradient = torch.softmax(x.float(), -1)
        gradient[torch.arange(len(x), device=x.device), target] -= 1.0
        ctx.save_for_backward(gradient)
        ctx.dtype = x.dtype
        return torch.nn.functional.cross_entropy(x.float(), target, reduction="none")

    @staticmethod
    def backward(ctx, grad_out):
        (gradient,) = ctx.saved_tensors
        return (gradient * grad_out[:, None]).to(ctx.dtype), None


@softcheck.variant(operation="cross_entropy")
def cross_entropy(x, target):
    return (
        _CrossEntropy.apply(x, target) if x.numel() else torch.nn.functional.cross_entropy(x, target, reduction="none")
    )
