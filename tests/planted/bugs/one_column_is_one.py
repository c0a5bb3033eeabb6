"""Returns ones for a single column without looking at it, where ±inf and NaN give NaN.

Report: pytorch/pytorch#161150 (compiled 1.0, eager NaN).
"""

import torch

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("special/one-column",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.shape[1] == 1:
        return torch.ones_like(x)
    return torch.softmax(x, dim=-1)
