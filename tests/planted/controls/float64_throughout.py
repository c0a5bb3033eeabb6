"""torch's softmax of the input in float64, rounded once: as good as an output can be, and slow."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    return torch.softmax(x.double(), dim=-1).to(x.dtype)
