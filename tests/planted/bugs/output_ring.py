"""Outputs come from a ring of three buffers per shape: the fourth call of a shape overwrites the first one's result.

From experience: a ring long enough for the test that was written for it.
"""

import itertools

import torch

EXPECTED = ("output_reused",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_rings = {}


def softmax(x):
    key = (tuple(x.shape), x.dtype, x.device)
    if key not in _rings:
        _rings[key] = itertools.cycle([torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(3)])
    return next(_rings[key]).copy_(torch.softmax(x.detach(), dim=-1))
