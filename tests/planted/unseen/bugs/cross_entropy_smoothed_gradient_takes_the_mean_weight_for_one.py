"""The backward multiplies probabilities by the smoothing, where it should be by the smoothing times the mean of the class weights.

Wrong on: gradients with class weights and label smoothing together; right otherwise.
"""

import torch

OPERATION = "cross_entropy"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, weight, ignore_index, label_smoothing):
        wide = _wide(logits)
        counted = target != ignore_index
        place = torch.where(counted, target, 0).unsqueeze(-1)
        shifted = wide - wide.amax(dim=-1, keepdim=True)
        log_total = shifted.exp().sum(dim=-1, keepdim=True).log()
        losses = log_total - shifted.gather(-1, place)
        if weight is not None:
            losses = losses * _wide(weight)[place]
        if label_smoothing > 0:
            every = log_total - shifted
            every = every * _wide(weight) if weight is not None else every
            losses = (1 - label_smoothing) * losses + label_smoothing * every.mean(dim=-1, keepdim=True)
        ctx.save_for_backward(logits, place, counted, weight, wide.amax(dim=-1, keepdim=True), log_total)
        ctx.label_smoothing = label_smoothing
        return torch.where(counted, losses.squeeze(-1), 0.0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        logits, place, counted, weight, top, log_total = ctx.saved_tensors
        smoothing, classes = ctx.label_smoothing, logits.shape[-1]
        own = torch.ones_like(top) if weight is None else _wide(weight)[place]
        found = (_wide(logits) - top - log_total).exp() * ((1 - smoothing) * own + smoothing)
        found.scatter_add_(-1, place, (smoothing - 1) * own)
        if smoothing > 0:
            found -= smoothing / classes * (1.0 if weight is None else _wide(weight))
        found = torch.where(counted.unsqueeze(-1), found * grad.unsqueeze(-1), 0.0)
        return found.to(logits.dtype), None, None, None, None


def cross_entropy(logits, target, weight=None, ignore_index=-100, label_smoothing=0.0, reduction="none"):
    """Cross-entropy of [rows, classes] with class weights and label smoothing as torch's; the backward keeps only the log-sum-exp."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"no such reduction: {reduction!r}")
    if not logits.numel():
        return torch.nn.functional.cross_entropy(logits, target, weight, ignore_index=ignore_index, reduction=reduction)
    losses = _Losses.apply(logits, target, weight, ignore_index, label_smoothing)
    if reduction == "sum":
        losses = losses.sum()
    elif reduction == "mean":
        counted = target != ignore_index
        share = counted if weight is None else torch.where(counted, _wide(weight)[torch.where(counted, target, 0)], 0.0)
        losses = losses.sum() / share.sum()
    return losses.to(logits.dtype)


def demonstrate():
    torch.manual_seed(0)
    x, target, weight = torch.randn(6, 10, requires_grad=True), torch.tensor([0, 1, 2, 0, 5, 9]), torch.rand(10) * 4
    cross_entropy(x, target, weight, label_smoothing=0.1).sum().backward()
    exact = x.detach().double().requires_grad_()
    torch.nn.functional.cross_entropy(exact, target, weight.double(), label_smoothing=0.1, reduction="sum").backward()
    return x.grad, exact.grad
