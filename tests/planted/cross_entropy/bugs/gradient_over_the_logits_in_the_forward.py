"""The forward writes the gradient for a loss of 1 over the logits, and the backward scales it.

Reports: linkedin/Liger-Kernel#272, unslothai/unsloth#5002. Fused linear layers with cross-entropy do it in buffers of their own.
"""

import torch

import softcheck

EXPECTED = ("input_modified", "wrong_gradient")
SHOWN_BY = ("probe/input_untouched",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        loss = torch.nn.functional.cross_entropy(x.float(), target, reduction="none")
        gradient = torch.softmax(x.float(), -1)
        gradient[torch.arange(len(x), device=x.device), target] -= 1.0
        x.copy_(gradient)
        ctx.save_for_backward(x)
        return loss

    @staticmethod
    def backward(ctx, grad_out):
        (gradient,) = ctx.saved_tensors
        return gradient * grad_out[:, None].to(gradient.dtype), None


@softcheck.variant(operation="cross_entropy")
def cross_entropy(x, target):
    return (
        _CrossEntropy.apply(x, target) if x.numel() else torch.nn.functional.cross_entropy(x, target, reduction="none")
    )
