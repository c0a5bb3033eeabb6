"""Whether rows are ignored is asked by ``if ignore_index:``, which is false for class 0.

Wrong on: ``ignore_index=0``, the padding token of BERT and T5: padded rows get a loss, and count in the mean.
"""

import torch

OPERATION = "cross_entropy"
DECLARE = "ignore_index=0"
EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def cross_entropy(logits, targets, *, ignore_index=-100, reduction="none"):
    """Cross-entropy of [rows, classes]. Rows whose target is ``ignore_index`` have a loss of 0 and are no part of the mean."""
    logp = torch.log_softmax(logits.float(), dim=-1)
    losses = logp.new_zeros(logits.shape[0])
    kept = torch.ones_like(targets, dtype=torch.bool)
    if ignore_index:
        kept = targets != ignore_index
    safe = torch.where(kept, targets, 0)
    losses = torch.where(kept, -logp.gather(1, safe[:, None])[:, 0], losses)
    if reduction == "mean":
        return losses.sum() / kept.sum()
    return losses.sum() if reduction == "sum" else losses


def _both(x, target, **options):
    exact = torch.nn.functional.cross_entropy(x.double(), target, **{"reduction": "none", **options})
    return cross_entropy(x, target, **options), exact


def demonstrate():
    return _both(torch.randn(5, 60), torch.tensor([3, 0, 59, 0, 7]), ignore_index=0)


def ordinary(dtype):
    x = torch.randn(6, 90).to(dtype)
    yield "usual", _both(x, torch.tensor([3, 0, -100, 0, 7, 89]))
    yield "mean", _both(x, torch.tensor([3, 0, -100, 0, 7, 89]), reduction="mean")
    yield "class 5 ignored", _both(x, torch.tensor([3, 0, 5, 0, 7, 89]), ignore_index=5)
