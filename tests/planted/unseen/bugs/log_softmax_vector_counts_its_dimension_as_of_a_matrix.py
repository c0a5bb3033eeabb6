"""A vector is made a matrix of one row, and its dimension is counted in the matrix: dimension 0 is then that of the one row.

Wrong on: a tensor of one dimension with ``dim=0``; with ``dim=-1``, and of more dimensions, right.
"""

import torch

OPERATION = "log_softmax"
EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def log_softmax(x, dim=-1):
    """Log-softmax along a dimension, in float32 or wider."""
    if x.dim() == 1:
        return log_softmax(x[None], dim)[0]
    if not x.numel():
        return x.clone()
    moved = x.transpose(dim, -1)
    wide = moved if moved.dtype == torch.float64 else moved.float()
    shifted = wide - wide.detach().amax(dim=-1, keepdim=True)
    found = shifted - shifted.exp().sum(dim=-1, keepdim=True).log()
    return found.to(x.dtype).transpose(dim, -1)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(30)
    return log_softmax(x, 0), torch.log_softmax(x.double(), 0)


def ordinary(dtype):
    for shape, dim in (((100,), -1), ((4, 100), -1), ((4, 100), 0), ((2, 30, 5), 1)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (log_softmax(x, dim), torch.log_softmax(x.double(), dim))
