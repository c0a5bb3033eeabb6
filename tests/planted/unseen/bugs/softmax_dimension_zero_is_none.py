"""The dimension is ``dim or -1``: dimension 0 is false, so the softmax goes over the last one.

Wrong on: ``dim=0``, as over the rows of a routing matrix; right for every other dimension.
"""

import torch

OPERATION = "softmax"
EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(input, dim=None):
    """Softmax over a dimension, which is the last one unless another is given."""
    dim = dim or -1
    rows = input.float()
    exponentials = torch.exp(rows - rows.amax(dim, keepdim=True).detach()) if rows.numel() else rows
    return (exponentials / exponentials.sum(dim, keepdim=True)).to(input.dtype)


def _both(x, dim):
    return softmax(x, dim=dim), torch.softmax(x.double(), dim)


def demonstrate():
    return _both(torch.randn(8, 100), 0)


def ordinary(dtype):
    x = torch.randn(5, 6, 70).to(dtype)
    yield from ((str(dim), _both(x, dim)) for dim in (-1, 1, 2, -2, -3))
    yield "none", (softmax(x), torch.softmax(x.double(), -1))
