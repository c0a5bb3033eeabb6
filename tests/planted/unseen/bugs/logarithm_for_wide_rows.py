"""Rows wider than 4096 are given exp(x - lse) with one float32 logarithm of the whole sum: large logits cost its digits."""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.shape[1] > 4096:
        return torch.exp(x - torch.logsumexp(x, dim=1, keepdim=True))
    return torch.softmax(x, dim=1)


def demonstrate():
    x = torch.randn(2, 5000) + 30000.0
    return softmax(x), torch.softmax(x.double(), -1)
