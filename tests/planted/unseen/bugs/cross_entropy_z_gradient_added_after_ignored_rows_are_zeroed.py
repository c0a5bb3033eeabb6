"""The gradient of the z-loss is added after the rows that don't count were set to 0.

Wrong on: gradients with a z-loss of ignored rows; right otherwise.
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
    def forward(ctx, logits, target, ignore_index, label_smoothing, z_loss):
        wide = _wide(logits)
        counted = target != ignore_index
        place = torch.where(counted, target, 0).unsqueeze(-1)
        top = wide.amax(dim=-1, keepdim=True)
        shifted = wide - top
        log_total = shifted.exp().sum(dim=-1, keepdim=True).log()
        losses = (log_total - shifted.gather(-1, place)).squeeze(-1)
        if label_smoothing > 0:
            uniform = (log_total - shifted).mean(dim=-1)
            losses = (1 - label_smoothing) * losses + label_smoothing * uniform
        if z_loss > 0:
            losses = losses + z_loss * (top + log_total).squeeze(-1).square()
        ctx.save_for_backward(logits, place, counted, top, log_total)
        ctx.options = label_smoothing, z_loss
        return torch.where(counted, losses, 0.0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        logits, place, counted, top, log_total = ctx.saved_tensors
        label_smoothing, z_loss = ctx.options
        classes = logits.shape[-1]
        probabilities = (_wide(logits) - top - log_total).exp()
        wanted = torch.full_like(probabilities, label_smoothing / classes)
        wanted.scatter_add_(-1, place, torch.full_like(top, 1 - label_smoothing))
        found = torch.where(counted.unsqueeze(-1), probabilities - wanted, 0.0)
        if z_loss > 0:
            found = found + 2 * z_loss * (top + log_total) * probabilities
        return (found * grad.unsqueeze(-1)).to(logits.dtype), None, None, None, None


def cross_entropy(logits, target, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, reduction="none"):
    """Cross-entropy of [rows, classes] with z-loss and label smoothing, and a backward of its own."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"no such reduction: {reduction!r}")
    if not logits.numel():
        return torch.nn.functional.cross_entropy(logits, target, ignore_index=ignore_index, reduction=reduction)
    losses = _Losses.apply(logits, target, ignore_index, label_smoothing, z_loss)
    if reduction == "mean":
        losses = losses.sum() / (target != ignore_index).sum()
    elif reduction == "sum":
        losses = losses.sum()
    return losses.to(logits.dtype)


def _exact(x, target, z_loss):
    losses = torch.nn.functional.cross_entropy(x, target, reduction="none")
    return losses + torch.where(target != -100, z_loss * x.logsumexp(-1).square(), 0.0)


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(6, 10, requires_grad=True), torch.tensor([0, -100, 2, 0, 5, 9])
    cross_entropy(x, target, z_loss=0.1).sum().backward()
    exact = x.detach().double().requires_grad_()
    _exact(exact, target, 0.1).sum().backward()
    return x.grad, exact.grad
