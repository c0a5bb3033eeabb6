"""A row whose maximum is the type's lowest finite number counts as masked altogether and gives NaN, as -inf would.

Wrong on: rows filled with ``torch.finfo(dtype).min``, as padded positions are in many model codes: the answer is 1 / n. After
pytorch/pytorch#110213.
"""

import torch

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wide = x.float()
    top = wide.amax(1, keepdim=True)
    dead = top <= torch.finfo(x.dtype).min
    e = torch.exp(wide - torch.where(dead, torch.zeros_like(top), top))
    total = torch.where(dead, torch.zeros_like(top), e.sum(1, keepdim=True))
    return torch.where(dead, torch.full_like(e, float("nan")), e / total).to(x.dtype)


def demonstrate():
    x = torch.randn(3, 50)
    x[1] = torch.finfo(torch.float32).min
    return softmax(x), torch.softmax(x.double(), -1)
