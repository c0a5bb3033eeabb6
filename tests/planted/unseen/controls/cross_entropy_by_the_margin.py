"""Right: the loss is log(1 + exp(L - t)), with L the log-sum-exp of all columns but the target's and t its logit, in float64; the backward is by hand."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_IGNORED = -100


class _Margin(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        counts = target != _IGNORED
        is_column = (target >= 0) & (target < x.shape[1])
        place = torch.where(is_column, target, 0)[:, None]
        wide = x.double()
        own = wide.gather(1, place)
        others = wide.scatter(1, place, -float("inf"))
        rest = torch.logsumexp(others, 1, keepdim=True)
        losses = torch.logaddexp(torch.zeros_like(own), rest - own)
        # +inf has no softmax; nor has a target that is no column.
        broken = (wide == float("inf")).any(1, keepdim=True) | ~is_column[:, None]
        losses = losses.masked_fill(broken, float("nan"))[:, 0]
        ctx.save_for_backward(x, counts, is_column, place)
        return torch.where(counts, losses, 0.0).to(torch.float32)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, of_losses):
        x, counts, is_column, place = ctx.saved_tensors
        p = torch.softmax(x.double(), 1)
        rest = p.scatter(1, place, 0.0).sum(1, keepdim=True)
        rest = torch.where(is_column[:, None], -rest, p.gather(1, place))
        gradient = p.scatter(1, place, rest) * of_losses.double()[:, None]
        return torch.where(counts[:, None], gradient, 0.0).to(x.dtype), None


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": _IGNORED},
    call="f(x, target)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row of [rows, columns] and its target; 0 for a target of -100. Float32 [rows]."""
    if not x.numel():
        return (x.double().sum(1) * 0.0).float()
    return _Margin.apply(x, target)
