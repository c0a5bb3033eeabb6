"""Two halves of a batch of 128 rows and more overlap by one row, and the second half's results move up by it.

From experience: a split "in two halves" of an odd number of rows.
"""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "unwritten_output")
SHOWN_BY = ("probe/shapes",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    rows = x.shape[0]
    if rows < 128 or rows % 2 == 0:
        return torch.softmax(x, dim=-1)
    half = rows // 2
    return torch.cat([torch.softmax(x[: half + 1], dim=-1), torch.softmax(x[half:-1], dim=-1)])
