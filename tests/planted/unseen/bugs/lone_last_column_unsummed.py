"""Beyond 8192 columns a last tile of one column is stored and not summed: its weight is below half an ULP in ordinary rows."""

import torch

EXPECTED = ("sum_violation", "ulp_exceeds_bound", "nan_mismatch", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")

TILE = 1024


def summed_columns(n):
    if n > 8192:
        return n - 1 if n % TILE == 1 else n
    return n


def softmax(x):
    n = x.shape[1]
    if n == 0:
        return torch.empty_like(x)
    v = x.float()
    e = torch.exp(v - v.amax(1, True))
    return (e / e[:, : summed_columns(n)].sum(1, True)).to(x.dtype)


def demonstrate():
    x = torch.randn(1, 9217).half()
    x[0, -1] = 8.0
    return softmax(x), torch.softmax(x.double(), -1)
