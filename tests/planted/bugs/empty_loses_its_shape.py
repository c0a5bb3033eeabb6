"""Returns a flat empty tensor where there is nothing to compute, in place of one of the input's shape.

Reports: pytorch/pytorch#17262, pytorch/pytorch#17256.
"""

import torch

EXPECTED = ("wrong_shape",)
SHOWN_BY = ("empty/10x0", "empty/0x2")
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return x.new_empty(0)
    return torch.softmax(x, dim=-1)
