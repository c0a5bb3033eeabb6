"""A path without atomics stands in where deterministic algorithms are asked for: its number of tiles is rounded down.

Wrong on: ``torch.use_deterministic_algorithms(True)`` and more than 1024 columns that are no multiple of it; up to 1024 it is right.
"""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")

TILE = 1024


def softmax(x):
    if x.numel() == 0 or not torch.are_deterministic_algorithms_enabled():
        return torch.softmax(x, -1)
    wide = x.float()
    top = wide.amax(1, keepdim=True)
    total = torch.zeros_like(top)
    for tile in range(max(1, x.shape[1] // TILE)):
        total = total + torch.exp(wide[:, tile * TILE : (tile + 1) * TILE] - top).sum(1, keepdim=True)
    return (torch.exp(wide - top) / total).to(x.dtype)


def demonstrate():
    x = torch.randn(3, 1500)
    torch.use_deterministic_algorithms(True)
    y = softmax(x)
    torch.use_deterministic_algorithms(False)
    return y, torch.softmax(x.double(), -1)
