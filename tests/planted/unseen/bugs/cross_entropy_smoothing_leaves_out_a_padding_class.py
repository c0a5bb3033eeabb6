"""The class of padding, whose rows are ignored, is left out of the smoothed part of all other rows too, as translation toolkits do; torch smooths over every class.

Wrong on: label smoothing with an ``ignore_index`` that is a class; right otherwise.
"""

import torch

OPERATION = "cross_entropy"
EXPECTED = ("ulp_exceeds_bound", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def cross_entropy(logits, target, ignore_index=-100, label_smoothing=0.0, reduction="none"):
    """Cross-entropy of [rows, classes], as torch's; a mean is one of the rows whose target is not ``ignore_index``."""
    if logits.shape[1] == 0:
        return torch.nn.functional.cross_entropy(logits, target, ignore_index=ignore_index, reduction=reduction)
    wide = logits if logits.dtype == torch.float64 else logits.float()
    logp = torch.log_softmax(wide, dim=-1)
    counted = target != ignore_index
    losses = -logp.gather(-1, target.masked_fill(~counted, 0)[:, None]).squeeze(-1)
    if label_smoothing > 0:
        classes = torch.arange(logp.shape[-1], device=logp.device)
        smooth = -logp[:, classes != ignore_index].sum(dim=-1) / logp.shape[-1]
        losses = (1 - label_smoothing) * losses + label_smoothing * smooth
    losses = torch.where(counted, losses, 0.0)
    if reduction == "sum":
        losses = losses.sum()
    elif reduction == "mean":
        losses = losses.sum() / counted.sum()
    return losses.to(logits.dtype)


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(6, 12), torch.tensor([0, 3, 5, 11, 0, 7])
    exact = torch.nn.functional.cross_entropy(x.double(), target, ignore_index=0, label_smoothing=0.1, reduction="none")
    return cross_entropy(x, target, ignore_index=0, label_smoothing=0.1), exact
