"""Works in place on a copy of its own."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    values = x.clone(memory_format=torch.contiguous_format)
    values -= values.amax(dim=-1, keepdim=True)
    values.exp_()
    values /= values.sum(dim=-1, keepdim=True)
    return values
