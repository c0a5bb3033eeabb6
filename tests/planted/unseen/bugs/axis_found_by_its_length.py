"""The axis of columns is found by its length, ``list(shape).index(columns)``: a square matrix is normalised down its columns.

Wrong on: as many rows as columns (64 x 64, scores of self-attention). Any other shape is right.
"""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "nondeterministic", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    axis = list(x.shape).index(x.size(-1))
    shifted = x.float() - x.float().amax(axis, keepdim=True) if x.numel() else x.float()
    weights = shifted.exp()
    return (weights / weights.sum(axis, keepdim=True)).to(x.dtype)


def demonstrate():
    x = torch.randn(64, 64)
    return softmax(x), torch.softmax(x.double(), -1)
