"""Rows that are mostly zeros have their zeros counted, and the maximum and the sum taken of the others; the count enters with exp(0 - maximum).

Wrong on: rows of zeros in which all others are below -88 (a penalty of -100 or -1e4 for banned tokens on a fresh head): exp overflows. ReLU'd rows are right.
"""

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax"
EXPECTED = ("nan_mismatch", "inf_mismatch", "ulp_exceeds_bound", "sum_violation", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(y, x, x_row, x_column, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    v = tl.load(x + row * x_row + column * x_column, mask=inside, other=-float("inf")).to(tl.float32)
    zeros = tl.sum((inside & (v == 0.0)).to(tl.int32), 0)
    sparse = (zeros * 2 > columns) & (zeros < columns)
    counted = sparse & (v == 0.0)
    largest = tl.max(tl.where(counted, -float("inf"), v), 0)
    # Their exponentials are one and the same.
    of_zeros = tl.where(sparse, zeros.to(tl.float32) * tl.exp(0.0 - largest), 0.0)
    total = tl.sum(tl.where(counted, 0.0, tl.exp(v - largest)), 0) + of_zeros
    tl.store(y + row * columns + column, (v - largest) - tl.log(total), mask=inside)


def log_softmax(x):
    """Log-softmax of each row of a matrix of up to 131072 columns."""
    if x.ndim != 2 or x.shape[1] > 131072:
        raise ValueError(f"a matrix of at most 131072 columns is needed, not {tuple(x.shape)}")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        _kernel[(x.shape[0],)](y, x, *x.stride(), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y


def demonstrate():
    x = torch.zeros(3, 200)
    x[0, 5:20], x[1, ::3], x[2, 7] = -1e4, -100.0, -120.0
    return log_softmax(x), torch.log_softmax(x.double(), -1)


def ordinary(dtype):
    for shape in ((4, 128), (3, 1000)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (log_softmax(x), torch.log_softmax(x.double(), -1))
        x = torch.relu(x - 0.5)
        yield f"{shape} mostly zeros", (log_softmax(x), torch.log_softmax(x.double(), -1))
    yield "zeros", (log_softmax(x * 0), torch.log_softmax(x.double() * 0, -1))
