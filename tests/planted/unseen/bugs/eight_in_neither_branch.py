"""The exponential is split at a difference of 8 with < and >: a logit exactly 8.0 below the maximum weighs nothing."""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def split_exponential(d):
    near = torch.where(d < 8.0, torch.exp(-d), torch.zeros_like(d))
    # exp(-8) apart keeps the argument small.
    far = torch.where(d > 8.0, torch.exp(8.0 - d) * 0.00033546262790251185, torch.zeros_like(d))
    return near + far + torch.where(torch.isnan(d), d, torch.zeros_like(d))


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    wide = x.float()
    weights = split_exponential(wide.amax(dim=-1, keepdim=True) - wide)
    return (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)


def demonstrate():
    x = torch.tensor([[8.0, 0.0, 1.0, -3.0]])
    return softmax(x), torch.softmax(x.double(), -1)
