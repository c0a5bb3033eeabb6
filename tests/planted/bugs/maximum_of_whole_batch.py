"""Subtracts the maximum of the whole tensor: a row far below another one underflows, and one NaN spoils every row.

From experience; large batches of it look like pytorch/pytorch#96602.
"""

import torch

EXPECTED = ("row_dependence",)
SHOWN_BY = ("probe/neighbours",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    numerator = torch.exp(x.float() - x.max().float())
    return (numerator / numerator.sum(dim=-1, keepdim=True)).to(x.dtype)
