"""The compiled graph chooses the target's log-probability by a product with one-hot numbers: 0 times -inf is NaN.

Wrong on: a class whose logit is -inf, though it is not the target, in a row that counts; the gradient is right, and all is right otherwise.
"""

import torch

OPERATION = "cross_entropy"
EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def _parts(wide, target):
    """Returns each row's loss for its target, and its loss for all classes alike."""
    logp = torch.log_softmax(wide, dim=-1)
    chosen = torch.nn.functional.one_hot(target, wide.shape[-1]).to(logp.dtype)
    return -(logp * chosen).sum(dim=-1), -logp.mean(dim=-1)


_compiled = torch.compile(_parts, dynamic=True)


def cross_entropy(logits, target, ignore_index=-100, label_smoothing=0.0, reduction="none"):
    """Cross-entropy of [rows, classes] with label smoothing; all that goes over the classes is one compiled graph."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"no such reduction: {reduction!r}")
    counted = target != ignore_index
    # One dtype, so that one graph serves all of 16 and 32 bits; sizes of 0 and 1 would be graphs of their own.
    wide = logits if logits.dtype == torch.float64 else logits.float()
    compute = _parts if min(logits.shape) < 2 else _compiled
    losses, uniform = compute(wide, torch.where(counted, target, 0))
    if label_smoothing > 0:
        losses = (1 - label_smoothing) * losses + label_smoothing * uniform
    losses = torch.where(counted, losses, 0.0)
    if reduction == "sum":
        losses = losses.sum()
    elif reduction == "mean":
        losses = losses.sum() / counted.sum()
    return losses.to(logits.dtype)


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(4, 100), torch.tensor([1, 2, 3, 4])
    x[:, 50:] = -float("inf")
    return cross_entropy(x, target), torch.nn.functional.cross_entropy(x.double(), target, reduction="none")
