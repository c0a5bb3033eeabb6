"""The split of a row is cached by the number of elements: another shape of as many elements gets the first one's.

From experience: ``numel()`` is a short key.
"""

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_columns = {}


def softmax(x):
    columns = _columns.setdefault(x.numel(), x.shape[-1])
    return torch.softmax(x.reshape(-1, columns), dim=-1).reshape(x.shape) if x.numel() else torch.empty_like(x)
