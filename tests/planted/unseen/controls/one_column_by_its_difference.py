"""A single column is one plus its logit less itself: 1 where the logit is finite, NaN for NaN and infinities."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.shape[1] == 1:
        return torch.ones_like(x) + (x - x)
    return torch.softmax(x, -1)
