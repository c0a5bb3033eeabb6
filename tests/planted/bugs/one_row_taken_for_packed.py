"""A single row takes a path of its own that reads it as adjacent elements: wrong where the columns are stepped.

From experience: decoding has one row, and tests of strides have several.
"""

import torch

EXPECTED = ("wrong_layout", "nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("probe/layouts",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.shape[0] == 1 and x.shape[1] > 1:
        held = torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())
        row = held[x.storage_offset() : x.storage_offset() + x.shape[1]]
        return torch.softmax(row, dim=0)[None]
    return torch.softmax(x, dim=-1)
