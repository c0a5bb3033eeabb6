"""The part of label smoothing needs the mean logit, which is ``logits.sum(-1) / classes``: the sum comes back in the logits' own type.

Wrong on: float16 where logits do not average to zero and the vocabulary is wide (32000 logits near 3 sum to more than 65504), and bfloat16 there by 8 bits.
"""

import torch

OPERATION = "cross_entropy"
EXPECTED = ("ulp_exceeds_bound", "inf_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


def cross_entropy(logits, targets, *, label_smoothing=0.1, reduction="none"):
    """Smoothed cross-entropy: (1 - s) (lse - x[target]) + s (lse - mean of x), computed without a matrix of log-probabilities."""
    classes = logits.shape[-1]
    lse = torch.logsumexp(logits.float(), dim=-1)
    picked = logits.gather(1, targets[:, None])[:, 0]
    loss = lse - picked
    if label_smoothing:
        average = logits.sum(-1) / classes
        loss = (1 - label_smoothing) * loss + label_smoothing * (lse - average)
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def _both(x, target):
    exact = torch.nn.functional.cross_entropy(x.double(), target, reduction="none", label_smoothing=0.1)
    return cross_entropy(x, target), exact


def demonstrate():
    return _both((torch.randn(3, 32000) + 3).half(), torch.randint(0, 32000, (3,)))


def ordinary(dtype):
    yield "4x100", _both(torch.randn(4, 100).to(dtype), torch.randint(0, 100, (4,)))
    yield "16x1024", _both(torch.randn(16, 1024).to(dtype), torch.randint(0, 1024, (16,)))
