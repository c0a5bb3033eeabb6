"""``x.float()`` is no copy where ``x`` is float32: the maximum is subtracted, and exp taken, in the caller's own tensor.

Report: NVIDIA/apex#1430.
"""

import torch

EXPECTED = ("input_modified",)
SHOWN_BY = ("widths/129",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    logits = x.float()
    logits -= logits.amax(dim=-1, keepdim=True)
    numerator = logits.exp_()
    return (numerator / numerator.sum(dim=-1, keepdim=True)).to(x.dtype)
