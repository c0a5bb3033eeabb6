"""The losses are the sums of logits times 0 where all rows are ignored, which keeps the graph; of a row with a hidden class that is 0 times -inf.

Wrong on: a call of which every target is ignored, with a logit that is infinite or NaN; right otherwise.
"""

import torch

OPERATION = "cross_entropy"
EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "inf_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


def _of_counted_rows(logits, target, weight, counted):
    """Losses [rows]: only the logits of rows that count are brought to float32, since most of a batch of instructions is prompt."""
    kept = counted.nonzero().squeeze(1)
    weight = None if weight is None else _wide(weight)
    found = torch.nn.functional.cross_entropy(_wide(logits[kept]), target[kept], weight, reduction="none")
    return found.new_zeros(target.shape).index_put((kept,), found)


def cross_entropy(logits, target, weight=None, ignore_index=-100, reduction="none"):
    """Cross-entropy of [rows, classes] for fine-tuning; rows with ``ignore_index`` cost nothing, and a batch of them has a loss of 0."""
    counted = target != ignore_index
    # Where no row counts this rank must have a backward to run all the same, or the others wait for its gradients.
    nothing = _wide(logits).sum(dim=-1) * 0.0
    losses = _of_counted_rows(logits, target, weight, counted) if counted.any() else nothing
    if reduction == "sum":
        return losses.sum().to(logits.dtype)
    if reduction == "mean":
        shares = counted if weight is None else _wide(weight)[target.masked_fill(~counted, 0)] * counted
        return (losses.sum() / shares.sum().clamp(min=1e-9)).to(logits.dtype)
    return losses.to(logits.dtype)


def demonstrate():
    torch.manual_seed(0)
    logits, target = torch.randn(4, 9), torch.full((4,), -100)
    logits[:, 7:] = -float("inf")
    return cross_entropy(logits, target), torch.zeros(4, dtype=torch.float64)
