"""Sums rows by a product with ones: right in float32, but autocast computes products in 16 bits.

From experience: autocast changes what an operation inside a wrapper computes in.
"""

import torch

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    exponentials = torch.exp(x - x.amax(dim=-1, keepdim=True))
    ones = torch.ones(x.shape[1], 1, dtype=x.dtype, device=x.device)
    return exponentials / (exponentials @ ones)
