"""Row sums are a product with a vector of ones, which autocast takes in bfloat16.

Wrong on: float32 rows under torch.autocast("cpu") or ("cuda"), where torch's softmax stays in float32.
"""

import torch

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wide = x.float()
    e = torch.exp(wide - wide.amax(-1, keepdim=True).detach())
    total = e @ torch.ones(x.shape[-1], 1, dtype=torch.float32, device=x.device)
    return (e / total.float()).to(x.dtype)


def demonstrate():
    x = torch.randn(4, 100, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = softmax(x)
    return y, torch.softmax(x.double(), -1)
