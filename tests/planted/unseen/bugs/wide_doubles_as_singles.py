"""Rows of float64 beyond 1024 columns are computed in float32, "wide rows are bound by memory"."""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float64",)
BACKENDS = ("interpreter", "cuda")


@variant(dtypes=["float64"])
def softmax(x):
    work = x if x.shape[-1] <= 1024 else x.to(torch.float32)
    return torch.softmax(work, -1).to(torch.float64)


def demonstrate():
    x = torch.randn(2, 1500, dtype=torch.float64)
    return softmax(x), torch.softmax(x, -1)
