"""Rows are summed by a product with ones in float64, which neither autocast nor TF32 touches."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    with torch.autocast(x.device.type, enabled=False):
        wide = x.detach().double()
        e = torch.exp(wide - wide.amax(1, keepdim=True))
        ones = torch.ones(x.shape[1], 1, dtype=torch.float64, device=x.device)
        return (e / (e @ ones)).to(x.dtype)
