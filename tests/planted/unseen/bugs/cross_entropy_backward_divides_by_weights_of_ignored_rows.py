"""The backward of a weighted mean adds up the weights anew, and counts each ignored row, whose class was set to 0, with the weight of class 0.

Wrong on: the gradient of a mean with class weights and ignored rows; right otherwise.
"""

import torch

OPERATION = "cross_entropy"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, weight, ignore_index, reduction):
        wide = _wide(logits)
        counted = target != ignore_index
        place = torch.where(counted, target, 0).long()
        lse = torch.logsumexp(wide, dim=-1)
        own = torch.ones_like(lse) if weight is None else _wide(weight)[place]
        shares = torch.where(counted, own, 0.0)
        losses = torch.where(counted, (lse - wide.gather(-1, place[:, None])[:, 0]) * own, 0.0)
        ctx.save_for_backward(logits, place, counted, weight, lse)
        ctx.reduction = reduction
        if reduction == "none":
            return losses.to(logits.dtype)
        total = losses.sum()
        return (total / shares.sum() if reduction == "mean" else total).to(logits.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        logits, place, counted, weight, lse = ctx.saved_tensors
        g = _wide(grad)
        own = torch.ones_like(lse) if weight is None else _wide(weight)[place]
        if ctx.reduction == "mean":
            g = g / (counted.sum() if weight is None else own.sum())
        found = (_wide(logits) - lse[:, None]).exp()
        found.scatter_add_(-1, place[:, None], torch.full_like(found[:, :1], -1.0))
        found = torch.where(counted[:, None], found * (own * g)[:, None], 0.0)
        return found.to(logits.dtype), None, None, None, None


def cross_entropy(logits, target, weight=None, ignore_index=-100, reduction="none"):
    """Cross-entropy of [rows, classes] with class weights as torch's; the backward makes probabilities from the log-sum-exp."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"no such reduction: {reduction!r}")
    if not logits.numel():
        return torch.nn.functional.cross_entropy(logits, target, weight, ignore_index=ignore_index, reduction=reduction)
    return _Loss.apply(logits, target, weight, ignore_index, reduction)


def demonstrate():
    torch.manual_seed(0)
    x, target, weight = torch.randn(6, 10, requires_grad=True), torch.tensor([1, 2, -100, 4, 5, 9]), torch.rand(10) + 1
    cross_entropy(x, target, weight, reduction="mean").backward()
    exact = x.detach().double().requires_grad_()
    torch.nn.functional.cross_entropy(exact, target, weight.double()).backward()
    return x.grad, exact.grad
