"""The path for more than 32 rows makes its own view of the storage and leaves out where it begins.

From experience: the small path was tested with slices, the large one was added later.
"""

import torch

EXPECTED = ("wrong_layout", "nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("probe/layouts",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.shape[0] <= 32 or not x.is_contiguous():
        return torch.softmax(x, dim=-1)
    return torch.softmax(x.as_strided(x.shape, x.stride(), 0), dim=-1)
