"""Rows that repeat are computed once; two rows are the same if they have the same maximum and the same sum.

Wrong on: 16 rows and more of which one is another in a different order: one-hot or integer logits, rolled or sorted rows.
"""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    rows = x.shape[0]
    if rows < 16 or x.numel() == 0 or (x.is_cuda and torch.cuda.is_current_stream_capturing()):
        return torch.softmax(x, -1)
    wide = x.detach().double()
    keys = torch.stack((wide.amax(1), wide.sum(1)), 1)
    distinct, place = torch.unique(keys, dim=0, return_inverse=True)
    first = torch.full((distinct.shape[0],), rows, dtype=torch.long, device=x.device)
    first = first.scatter_reduce(0, place, torch.arange(rows, device=x.device), "amin")
    return torch.softmax(x[first], -1)[place]


def demonstrate():
    x = torch.eye(20) * 5.0
    return softmax(x), torch.softmax(x.double(), -1)
