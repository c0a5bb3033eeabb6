"""Kernels for the search for the worst row: one that is wrong in a narrow region alone, and right ones beside it."""

import torch


def right(x):
    """Correctly rounded, but for double rounding."""
    return torch.softmax(x.double(), dim=-1).to(x.dtype)


def narrow(x):
    """Too large by 1e-5, fourteen times what is allowed, where the first six logits are close to six numbers; less around."""
    centre = torch.tensor([1.5, -2.25, 0.75, 3.0, -1.0, 2.0], dtype=torch.float64)
    exact = torch.softmax(x.double(), dim=-1)
    distance = (x[:, :6].double() - centre).square().sum(dim=1, keepdim=True)
    return (exact * (1 + 1e-5 / (1 + distance / 0.09))).to(x.dtype)


def by_batch(x):
    """Right alone, wrong in the company of other rows."""
    exact = torch.softmax(x.double(), dim=-1)
    return (exact * (1 + 1e-4 * (x.shape[0] > 1))).to(x.dtype)


def nan_at_large(x):
    """NaN where the spread is above 200."""
    exact = torch.softmax(x.double(), dim=-1)
    spread = x.double().amax(dim=1, keepdim=True) - x.double().amin(dim=1, keepdim=True)
    return torch.where(spread > 200, torch.nan, exact).to(x.dtype)


def dies_later(x):
    """Ends its process when it meets a row whose logits are all equal, among many rows."""
    import os

    if x.shape[0] > 2 and bool((x == x[:, :1]).all(dim=1).any()):
        os._exit(9)
    return torch.softmax(x, dim=-1)
