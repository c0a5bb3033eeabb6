"""The soft cap is left out where all logits are below a sixteenth of it, "where the tangent is the identity": it is not, by x^3 / (3 c^2).

Wrong on: logits that are all below 1.875 in magnitude, as of a freshly initialised head; any larger logit in the batch makes it right.
"""

import torch

OPERATION = "cross_entropy"
EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def cross_entropy(logits, targets, softcap=30.0):
    """Cross-entropy of each row of c tanh(x / c), as Gemma 2 has it."""
    x = logits.float()
    if x.numel() and x.abs().max() >= softcap / 16:
        x = softcap * torch.tanh(x / softcap)
    return torch.nn.functional.cross_entropy(x, targets, reduction="none")


def _both(x, target):
    capped = 30 * torch.tanh(x.double() / 30)
    return cross_entropy(x, target), torch.nn.functional.cross_entropy(capped, target, reduction="none")


def demonstrate():
    return _both(torch.rand(4, 50) * 3.6 - 1.8, torch.tensor([0, 20, 40, 49]))


def ordinary(dtype):
    yield "16x1024", _both(torch.randn(16, 1024).to(dtype), torch.randint(0, 1024, (16,)))
    yield "large", _both((torch.randn(4, 100) * 40).to(dtype), torch.randint(0, 100, (4,)))
