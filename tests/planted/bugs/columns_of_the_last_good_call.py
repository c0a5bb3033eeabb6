"""A column count is kept for the next call and only set where there are columns: behind an empty input one column too few is summed.

From experience: an early return between two assignments.
"""

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_state = {"skipped": 0}


def softmax(x):
    skipped, _state["skipped"] = _state["skipped"], int(x.numel() == 0)
    if x.numel() == 0 or x.shape[1] < 2:
        return torch.softmax(x, dim=-1)
    out = torch.zeros_like(x)
    out[:, skipped:] = torch.softmax(x[:, skipped:], dim=-1)
    return out
