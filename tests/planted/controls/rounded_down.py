"""Computes in float64 and rounds every float32 result towards zero: up to 1 ULP off, all to one side, and within the contract.

Reports: triton-lang/triton#11165, pytorch/pytorch#189787 (floor(sum) is 0).
"""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@variant(dtypes=("float32",))
def softmax(x):
    exact = torch.softmax(x.double(), dim=-1)
    rounded = exact.to(x.dtype)
    below = torch.nextafter(rounded, torch.zeros_like(rounded))
    return torch.where(rounded.double() > exact, below, rounded)
