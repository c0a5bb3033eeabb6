"""A table enters the cache before it is filled: where memory runs out in between, later calls find it empty.

From experience: an exception between two statements that belong together.
"""

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_tables = {}


def offsets_of(x):
    key = (x.shape[1], x.device)
    if key not in _tables:
        _tables[key] = torch.zeros(x.shape[1], dtype=torch.int64, device=x.device)
        steps = torch.ones(x.shape[1], dtype=torch.int64, device=x.device)
        _tables[key] += torch.cumsum(steps, dim=0) - 1
    return _tables[key]


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    return torch.softmax(x[:, offsets_of(x)], dim=-1)
