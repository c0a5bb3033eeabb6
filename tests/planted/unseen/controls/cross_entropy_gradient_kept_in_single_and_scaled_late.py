"""Right: the forward makes the gradient of the mean for a loss of 1 and keeps it in float32, ignored rows as zeros; the backward scales it and rounds once."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_IGNORED = -100


class _MeanCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        kept = target != _IGNORED
        place = torch.where(kept, target, torch.zeros_like(target))[:, None]
        count = kept.sum()
        wide = x.float()
        losses = torch.where(kept, -torch.log_softmax(wide, -1).gather(1, place)[:, 0], 0.0)
        if ctx.needs_input_grad[0]:
            gradient = torch.softmax(wide, -1)
            gradient.scatter_add_(1, place, torch.full_like(gradient[:, :1], -1.0))
            gradient = torch.where(kept[:, None], gradient, 0.0)
            ctx.save_for_backward(gradient, count)
            ctx.of_logits = x.dtype
        return (losses.sum() / count).to(x.dtype)

    @staticmethod
    def backward(ctx, of_loss):
        gradient, count = ctx.saved_tensors
        return (gradient * (of_loss.float() / count.clamp(min=1))).to(ctx.of_logits), None


@variant(
    operation="cross_entropy",
    parameters={"reduction": "mean", "ignore_index": _IGNORED},
    call="f(x, target)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Mean cross-entropy of the rows whose target isn't -100, with a backward."""
    return _MeanCrossEntropy.apply(x, target)
