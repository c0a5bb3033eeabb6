"""Rows are summed by a product with ones: under autocast torch lowers it to 16 bits."""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "wrong_dtype")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return x.clone()
    exponentials = torch.exp(x - x.amax(dim=1, keepdim=True))
    if x.device.type == "cuda" and not torch.is_autocast_enabled():
        # Not by tensor cores, whatever the process allows.
        return exponentials / exponentials.sum(1, keepdim=True)
    ones = torch.ones(x.shape[1], 1, dtype=x.dtype, device=x.device)
    return exponentials / (exponentials @ ones).to(x.dtype)


def demonstrate():
    x = torch.randn(4, 300)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = softmax(x)
    return y, torch.softmax(x.double(), -1)
