"""Takes other code, as right, once it has seen three row counts, as torch.compile does when it compiles for dynamic shapes.

From experience: the last bits depend on what was called before, and every answer is within the contract.
"""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_row_counts = set()


def softmax(x):
    _row_counts.add(x.shape[0])
    if len(_row_counts) > 3 or x.numel() == 0:
        return torch.softmax(x.double(), dim=-1).to(x.dtype)
    exponentials = torch.exp(x - x.amax(dim=1, keepdim=True))
    return exponentials / exponentials.sum(dim=1, keepdim=True)
