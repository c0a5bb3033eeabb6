"""Sums are taken in 64-bit integers of 2^-44, in which up to 2^18 terms fit and lose less than float32 does; wider rows use float64."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

UNIT = 2.0**44


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wide = x.detach().float()
    e = torch.exp(wide - wide.amax(1, keepdim=True))
    if x.shape[1] > 1 << 18:
        total = e.double().sum(1, keepdim=True)
    else:
        # NaN has no integer: it is added behind the sum, where all else adds 0.
        bad = (e * 0.0).sum(1, keepdim=True)
        units = (e.nan_to_num(0.0).double() * UNIT).round().long().sum(1, keepdim=True)
        total = units.double() / UNIT + bad
    return (e / total).to(x.dtype)
