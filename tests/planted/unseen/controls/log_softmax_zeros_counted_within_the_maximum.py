"""Rows that are mostly zeros have their zeros counted, of either sign, and weighed by one exponential; the maximum is that of all elements."""

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(y, x, x_row, x_column, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    v = tl.load(x + row * x_row + column * x_column, mask=inside, other=-float("inf")).to(tl.float32)
    largest = tl.max(v, 0)
    zeros = tl.sum((inside & (v == 0.0)).to(tl.int32), 0)
    sparse = zeros * 2 > columns
    counted = sparse & (v == 0.0)
    total = tl.sum(tl.where(counted, 0.0, tl.exp(v - largest)), 0)
    if sparse:
        total += zeros.to(tl.float32) * tl.exp(0.0 - largest)
    tl.store(y + row * columns + column, (v - largest) - tl.log(total), mask=inside)


def log_softmax(x):
    """Log-softmax of each row of a matrix of up to 131072 columns."""
    if x.ndim != 2:
        raise ValueError(f"a matrix is needed, not {tuple(x.shape)}")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        _kernel[(x.shape[0],)](y, x, *x.stride(), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y


def ordinary(dtype):
    for shape in ((4, 128), (3, 1000), (1, 1), (0, 4), (4, 0), (30, 3)):
        for x in (
            torch.randn(shape).to(dtype),
            torch.relu(torch.randn(shape) - 0.5).to(dtype),
            torch.zeros(shape).to(dtype),
        ):
            yield f"{shape}", (log_softmax(x), torch.log_softmax(x.double(), -1))
    x = torch.zeros(7, 200).to(dtype)
    x[0, 5:20], x[1, ::3], x[2, 7], x[3, 7], x[4, 9], x[5, 1], x[6, :90] = (
        -1e4,
        -100,
        -120,
        float("nan"),
        float("inf"),
        300,
        float("-inf"),
    )
    yield "special", (log_softmax(x), torch.log_softmax(x.double(), -1))
    yield "hidden", (log_softmax(x - float("inf")), torch.log_softmax(x.double() - float("inf"), -1))
    x = torch.randn(30, 7).to(dtype).mT
    yield "transposed", (log_softmax(x), torch.log_softmax(x.double(), -1))
