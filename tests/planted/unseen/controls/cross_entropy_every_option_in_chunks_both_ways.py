"""Weights, smoothing, z-loss, a soft cap and ignored rows together, forward and backward in chunks of rows; only the maxima and logarithms of sums are kept."""

import torch

OPERATION = "cross_entropy"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

ROWS_AT_ONCE = 128


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


def _capped(logits, softcap):
    wide = _wide(logits)
    return wide if not softcap else softcap * torch.tanh(wide / softcap)


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, weight, ignore_index, smoothing, z_loss, softcap):
        counted = target != ignore_index
        place = torch.where(counted, target, 0)
        parts = []
        for x, t, c in zip(
            logits.split(ROWS_AT_ONCE), place.split(ROWS_AT_ONCE), counted.split(ROWS_AT_ONCE), strict=True
        ):
            v = _capped(x, softcap)
            top = v.amax(dim=-1, keepdim=True)
            d = v - top
            log = d.exp().sum(dim=-1, keepdim=True).log()
            loss = (log - d.gather(-1, t[:, None])).squeeze(-1)
            if weight is not None:
                loss = loss * _wide(weight)[t]
            if smoothing > 0:
                every = log - d if weight is None else (log - d) * _wide(weight)
                loss = (1 - smoothing) * loss + smoothing * every.mean(dim=-1)
            if z_loss > 0:
                loss = loss + z_loss * (top + log).squeeze(-1).square()
            parts.append((torch.where(c, loss, 0.0), top, log))
        losses, top, log = (torch.cat(each) for each in zip(*parts, strict=True))
        ctx.save_for_backward(logits, place, counted, weight, top, log)
        ctx.options = smoothing, z_loss, softcap
        return losses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        logits, place, counted, weight, top, log = ctx.saved_tensors
        smoothing, z_loss, softcap = ctx.options
        rows, classes = logits.shape
        found = torch.empty(rows, classes, dtype=logits.dtype, device=logits.device)
        weights = None if weight is None else _wide(weight)
        for first in range(0, rows, ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            v, t = _capped(logits[part], softcap), place[part, None]
            p = (v - top[part] - log[part]).exp()
            own = torch.ones_like(top[part]) if weights is None else weights[t]
            share = (1 - smoothing) * own
            if smoothing > 0:
                share = share + smoothing * (1.0 if weights is None else weights.mean())
            if z_loss > 0:
                share = share + 2 * z_loss * (top[part] + log[part])
            d = p * share
            d.scatter_add_(-1, t, (smoothing - 1) * own)
            if smoothing > 0:
                d -= smoothing / classes * (1.0 if weights is None else weights)
            if softcap:
                d = d * (1 - (v / softcap).square())
            found[part] = torch.where(counted[part, None], d * grad[part, None], 0.0)
        return found, None, None, None, None, None, None


def cross_entropy(
    logits, target, weight=None, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0, reduction="none"
):
    """Cross-entropy of [rows, classes] with all of torch's options, z-loss and a soft cap. With weights a mean is one of weights."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"no such reduction: {reduction!r}")
    if not logits.numel():
        return torch.nn.functional.cross_entropy(logits, target, weight, ignore_index=ignore_index, reduction=reduction)
    losses = _Losses.apply(logits, target, weight, ignore_index, label_smoothing, z_loss, softcap)
    if reduction == "sum":
        losses = losses.sum()
    elif reduction == "mean":
        counted = target != ignore_index
        share = counted if weight is None else torch.where(counted, _wide(weight)[torch.where(counted, target, 0)], 0.0)
        losses = losses.sum() / share.sum()
    return losses.to(logits.dtype)
