"""From 64 rows on a tiled path takes 32 rows at a time and forgets those beyond the last whole tile.

From experience: batches in tests are powers of two.
"""

import torch

EXPECTED = ("unwritten_output", "sum_violation", "nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("probe/shapes",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rows = len(x) // 32 * 32 if len(x) >= 64 else len(x)
    out[:rows] = torch.softmax(x[:rows], dim=-1)
    return out
