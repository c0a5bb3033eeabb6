"""A tensor whose magnitudes stay below 88 is not shifted, "exp can't overflow": three logits of 88 overflow the sum."""

import torch

EXPECTED = ("row_dependence", "nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def safe(x):
    return x.numel() > 0 and bool(x.abs().amax() <= 88.0)


def softmax(x):
    wide = x.float()
    if safe(x):
        e = wide.exp()
        return (e / e.sum(1, keepdim=True)).to(x.dtype)
    return torch.softmax(wide, dim=1).to(x.dtype)


def demonstrate():
    x = torch.zeros(2, 200)
    x[0, :3] = 88.0
    return softmax(x), torch.softmax(x.double(), -1)
