"""Up to 64 columns of float16 are summed and divided in float16, "the sum can't get large"."""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


def small(x):
    e = (x - x.amax(1, keepdim=True)).exp()
    return e / e.sum(1, keepdim=True)


def softmax(x):
    if x.numel() and x.shape[1] <= 64:
        return small(x)
    return torch.softmax(x, 1)


def demonstrate():
    x = torch.randn(100, 60).half() * 3
    return softmax(x), torch.softmax(x.double(), -1), x
