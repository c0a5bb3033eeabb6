"""With probabilities as targets the loss is the log-sum-exp less the mean logit, which holds where a row's probabilities sum to 1.

Wrong on: rows of zeros (padding), and weighted or unnormalised soft targets: the log-sum-exp counts in full. Indices and normalised rows are right.
"""

import torch

OPERATION = "cross_entropy"
EXPECTED = ("ulp_exceeds_bound", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def cross_entropy(input, target, ignore_index=-100, reduction="mean"):
    """Cross-entropy of [rows, classes], with classes or with probabilities of all classes as targets."""
    logits = input.float()
    largest = logits.amax(-1, keepdim=True).detach()
    below = logits - largest
    lse = below.exp().sum(-1).log()
    if target.is_floating_point():
        losses = lse - (target.float() * below).sum(-1)
        count = len(losses)
    else:
        kept = target != ignore_index
        picked = below.gather(1, torch.where(kept, target, 0)[:, None])[:, 0]
        losses = torch.where(kept, lse - picked, 0.0)
        count = kept.sum()
    if reduction == "none":
        return losses
    return losses.sum() / count if reduction == "mean" else losses.sum()


def _both(x, target, reduction="none"):
    wide = target.double() if target.is_floating_point() else target
    exact = torch.nn.functional.cross_entropy(x.double(), wide, reduction=reduction)
    return cross_entropy(x, target, reduction=reduction), exact


def demonstrate():
    target = torch.rand(6, 40).softmax(-1)
    target[2:4] = 0
    target[5] *= 0.5
    return _both(torch.randn(6, 40), target)


def ordinary(dtype):
    x = torch.randn(6, 90).to(dtype)
    for reduction in ("mean", "sum", "none"):
        yield reduction, _both(x, torch.tensor([3, 0, -100, 0, 7, 89]), reduction)
        yield f"{reduction} soft", _both(x, torch.randn(6, 90).softmax(-1), reduction)
