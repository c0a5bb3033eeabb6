"""Row numbers are kept in 16 bits: row 32768 is taken for the first one again.

From experience: index types are chosen for the shapes of one model.
"""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "unwritten_output")
SHOWN_BY = ("probe/grid_limits",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)


def softmax(x):
    rows = torch.arange(x.shape[0], device=x.device).to(torch.int16).long() % 32768
    return torch.softmax(x[rows], dim=-1)
