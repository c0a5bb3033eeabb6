"""Column-major matrices are reduced down their columns, thirty-two rows of answers at once; past 512 elements the shift of the first 512 stays.

Wrong on: a transposed matrix (a softmax over the first dimension) of rows longer than 512, with a logit after the first 512 that is 88 above them: infinite.
"""

import torch
import triton
import triton.language as tl

OPERATION = "logsumexp"
EXPECTED = ("wrong_layout", "nan_mismatch", "inf_mismatch", "ulp_exceeds_bound", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _along_rows(answer, x, x_row, x_column, columns, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    peak = tl.full([TILE], -float("inf"), tl.float32)
    for first in range(0, columns, TILE):
        column = first + lane
        v = tl.load(x + row * x_row + column * x_column, mask=column < columns, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, v)
    largest = tl.max(peak, 0)
    shift = tl.where(tl.abs(largest) == float("inf"), 0.0, largest)
    mass = tl.zeros([TILE], tl.float32)
    for first in range(0, columns, TILE):
        column = first + lane
        v = tl.load(x + row * x_row + column * x_column, mask=column < columns, other=-float("inf")).to(tl.float32)
        mass += tl.exp(v - shift)
    tl.store(answer + row, tl.log(tl.sum(mass, 0)) + shift)


@triton.jit
def _down_columns(answer, x, x_row, x_column, rows, columns, ROWS: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, TILE).to(tl.int64)
    at = x + row[None, :] * x_row + lane[:, None] * x_column
    inside = (row < rows)[None, :] & (lane < columns)[:, None]
    v = tl.load(at, mask=inside, other=-float("inf")).to(tl.float32)
    largest = tl.max(v, 0)
    shift = tl.where(tl.abs(largest) == float("inf"), 0.0, largest)
    mass = tl.sum(tl.exp(v - shift[None, :]), 0)
    for first in range(TILE, columns, TILE):
        inside = (row < rows)[None, :] & (first + lane < columns)[:, None]
        v = tl.load(at + first * x_column, mask=inside, other=-float("inf")).to(tl.float32)
        mass += tl.sum(tl.exp(v - shift[None, :]), 0)
    tl.store(answer + row, tl.log(mass) + shift, mask=row < rows)


def logsumexp(x):
    """Log-sum-exp of each row of a matrix, in float32; a transposed one is read as it lies."""
    rows, columns = x.shape
    answer = torch.full((rows,), -float("inf"), dtype=torch.float32, device=x.device)
    if x.numel() and x.stride(0) == 1 and x.stride(1) > 1:
        _down_columns[(triton.cdiv(rows, 32),)](answer, x, *x.stride(), rows, columns, 32, 512)
    elif x.numel():
        _along_rows[(rows,)](answer, x, *x.stride(), columns, 1024)
    return answer


def _both(x):
    return logsumexp(x), torch.logsumexp(x.double(), -1)


def demonstrate():
    x = torch.randn(1200, 20)
    x[900, 3], x[1199, 7] = 120.0, 95.0
    return _both(x.t())


def ordinary(dtype):
    yield "packed", _both(torch.randn(5, 3000).to(dtype))
    yield "transposed", _both(torch.randn(3000, 5).to(dtype).t())
    yield "wide spread", _both((torch.randn(400, 40) * 60).to(dtype).t())
    yield "peaked", _both((torch.randn(4, 2000) * 60).to(dtype))
