"""Of the smoothed part each chunk's mean is of the rows that count in it, and the mean of these is by all rows, of which some don't count.

Wrong on: the mean with label smoothing of more than 64 rows of which chunks ignore different shares; right otherwise.
"""

import torch

OPERATION = "cross_entropy"
EXPECTED = ("ulp_exceeds_bound", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

ROWS_AT_ONCE = 64


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


def _parts(logits, target, ignore_index, label_smoothing):
    """Returns each row's loss for its target, and its loss for all classes alike."""
    wide = _wide(logits)
    counted = target != ignore_index
    shifted = wide - wide.detach().amax(dim=-1, keepdim=True)
    log_total = shifted.exp().sum(dim=-1, keepdim=True).log()
    chosen = (log_total - shifted.gather(-1, torch.where(counted, target, 0).unsqueeze(-1))).squeeze(-1)
    uniform = (log_total - shifted).mean(dim=-1) if label_smoothing > 0 else torch.zeros_like(chosen)
    return torch.where(counted, chosen, 0.0), torch.where(counted, uniform, 0.0), counted


def cross_entropy(logits, target, ignore_index=-100, label_smoothing=0.0, reduction="mean"):
    """Cross-entropy of [rows, classes] in chunks of rows, so that no float32 copy of all logits is made."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"no such reduction: {reduction!r}")
    rows = logits.shape[0]
    if not logits.numel():
        return torch.nn.functional.cross_entropy(logits, target, ignore_index=ignore_index, reduction=reduction)
    if reduction == "none" or rows <= ROWS_AT_ONCE:
        chosen, uniform, counted = _parts(logits, target, ignore_index, label_smoothing)
        losses = chosen if label_smoothing == 0 else (1 - label_smoothing) * chosen + label_smoothing * uniform
        if reduction == "mean":
            losses = losses.sum() / counted.sum()
        return (losses.sum() if reduction == "sum" else losses).to(logits.dtype)
    chosen = uniform = 0.0
    counted = (target != ignore_index).sum()
    for part, wanted in zip(logits.split(ROWS_AT_ONCE), target.split(ROWS_AT_ONCE), strict=True):
        one, every, here = _parts(part, wanted, ignore_index, label_smoothing)
        if reduction == "mean":
            chosen = chosen + one.sum() / counted
            uniform = uniform + every.sum() / here.sum().clamp(min=1) * (part.shape[0] / rows)
        else:
            chosen, uniform = chosen + one.sum(), uniform + every.sum()
    loss = chosen if label_smoothing == 0 else (1 - label_smoothing) * chosen + label_smoothing * uniform
    return loss.to(logits.dtype)


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(100, 50) * 3, torch.randint(0, 50, (100,))
    target[:50] = -100
    return cross_entropy(x, target, label_smoothing=0.1), torch.nn.functional.cross_entropy(
        x.double(), target, label_smoothing=0.1
    )
