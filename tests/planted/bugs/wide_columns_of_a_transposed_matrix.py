"""Wide transposed inputs are handled by their transpose, whose blocks of 2048 rows are normalised one by one.

From experience: a path for column-major input whose tests end before its second block.
"""

import torch

EXPECTED = ("wrong_layout", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("probe/layouts",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.stride(0) != 1 or x.shape[0] == 1 or x.shape[1] <= 2048:
        return torch.softmax(x, dim=-1)
    blocks = [torch.softmax(block, dim=0) for block in x.t().split(2048)]
    return torch.cat(blocks).t().contiguous()
