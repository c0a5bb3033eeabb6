"""exp is exp2 of the product with log2(e) in two parts: the first goes into exp2, and the rest, below 2^-17, into a factor 1 + r log 2."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")

LOG2_E = 1.4426950408889634
LOG_2 = 0.6931471805599453


def exponential(d):
    product = d.double() * LOG2_E
    high = product.float()
    rest = torch.where(high == -float("inf"), torch.zeros_like(product), product - high.double()).float()
    return torch.exp2(high).double() * (1.0 + rest.double() * LOG_2)


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wide = x.detach().float()
    e = exponential(wide - wide.amax(1, keepdim=True))
    return (e / e.sum(1, keepdim=True)).to(x.dtype)
