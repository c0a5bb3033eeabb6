"""Rows whose least and largest logit are equal take 1 / n, with a guard for -inf alone: a row of +inf gives 1 / n too."""

import torch

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    low, high = torch.aminmax(x, dim=1, keepdim=True)
    flat = (low == high) & (low > -float("inf"))
    return torch.where(flat, torch.full_like(x, 1.0 / x.size(1)), torch.softmax(x, dim=1))


def demonstrate():
    x = torch.full((2, 5), float("inf"))
    x[1] = 1.0
    return softmax(x), torch.softmax(x.double(), -1)
