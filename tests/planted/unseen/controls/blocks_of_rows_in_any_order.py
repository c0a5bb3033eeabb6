"""Blocks of rows are launched in an order drawn by a generator of its own, other than the last call's: rows don't depend on it."""

import random

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")

_generator = random.Random(1)


def softmax(x):
    rows = x.shape[0]
    if rows < 32 or x.numel() == 0 or x.requires_grad:
        return torch.softmax(x, -1)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    step = -(-rows // 16)
    starts = list(range(0, rows, step))
    _generator.shuffle(starts)
    for start in starts:
        y[start : start + step] = torch.softmax(x[start : start + step], -1)
    return y
