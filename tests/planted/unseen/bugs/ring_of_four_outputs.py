"""Four outputs of each shape take turns: the fifth call overwrites what the first has returned."""

import itertools

import torch

EXPECTED = ("output_reused", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")

_rings = {}


def next_output(x):
    key = (x.shape, x.dtype, x.device)
    if key not in _rings:
        _rings[key] = itertools.cycle([torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(4)])
    return next(_rings[key])


def softmax(x):
    return torch.softmax(x, dim=-1, out=next_output(x))


def demonstrate():
    x = torch.randn(2, 6).half()
    kept = softmax(x)
    for _ in range(4):
        softmax(torch.randn(2, 6).half())
    return kept, torch.softmax(x.double(), -1)
