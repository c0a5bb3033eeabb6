"""Rows that hold NaN or +inf, masked rows and rows of equal logits are answered apart, as the contract has them."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return x.clone()
    high, low = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    undefined = high.isnan() | high.isinf()
    flat = (high == low) & ~undefined
    v = torch.where(undefined, torch.zeros_like(x), x).float()
    e = torch.exp(v - torch.where(undefined, torch.zeros_like(high), high).float())
    p = (e / e.sum(1, keepdim=True)).to(x.dtype)
    p = torch.where(flat, torch.full_like(p, 1.0 / x.shape[1]), p)
    return torch.where(undefined, torch.full_like(p, float("nan")), p)
