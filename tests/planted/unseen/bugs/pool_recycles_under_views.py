"""Outputs come from a pool, to which a buffer goes back when the returned tensor object dies, though a view of it may live on.

Wrong on: ``kept = softmax(a)[0]`` (or ``.t()``, ``[:, 1]``), then another call of the same shape: the kept view changes under the caller's hands.
"""

import weakref

import torch

EXPECTED = ("output_reused", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")

_pool = {}


def take(x):
    key = (x.shape, x.dtype, x.device)
    free = _pool.setdefault(key, [])
    held = free.pop() if free else torch.empty(x.shape, dtype=x.dtype, device=x.device)
    output = held.view(x.shape)
    weakref.finalize(output, free.append, held)
    return output


def softmax(x):
    y = take(x)
    torch.softmax(x.detach(), -1, out=y)
    return y


def demonstrate():
    x = torch.randn(4, 9)
    kept = softmax(x)[1]
    softmax(torch.randn(4, 9))
    return kept, torch.softmax(x.double(), -1)[1]
