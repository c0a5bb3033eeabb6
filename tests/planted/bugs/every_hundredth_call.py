"""Every hundredth call measures a second way of computing, and returns its result, which lacks the last column.

From experience: a tuner that samples in production.
"""

import itertools

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories/many-calls",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_calls = itertools.count(1)


def softmax(x):
    out = torch.softmax(x, dim=-1)
    if next(_calls) % 100 == 0 and x.shape[-1] > 1:
        return torch.cat([torch.softmax(x[:, :-1], dim=-1), torch.zeros_like(x[:, :1])], dim=-1)
    return out
