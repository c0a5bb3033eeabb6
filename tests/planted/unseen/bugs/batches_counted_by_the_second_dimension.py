"""Rows of three dimensions are rows times batches; of four, the two leading ones are taken as one by the first's size squared.

Wrong on: [batch, heads, rows, columns] with fewer batches than heads (unwritten rows); three dimensions and square leading ones are right.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "unwritten_output", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(dimensions=4)
def softmax(x):
    if x.dim() < 4 or x.numel() == 0:
        return torch.softmax(x, -1)
    batch, heads, rows, columns = x.shape
    taken = min(batch * batch, batch * heads)
    y = torch.zeros((batch * heads, rows, columns), dtype=x.dtype, device=x.device)
    flat = x.reshape(batch * heads, rows, columns)
    for one in range(taken):
        y[one] = torch.softmax(flat[one], -1)
    return y.view(x.shape)


def demonstrate():
    x = torch.randn(2, 8, 3, 20)
    return softmax(x), torch.softmax(x.double(), -1)
