"""A Triton softmax that asserts a matrix of one of three types and refuses more than 16384 columns with a reason."""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

MAX_COLUMNS = 16384


@triton.jit
def _row(out, x, out_row, out_column, x_row, x_column, n, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH).to(tl.int64)
    v = tl.load(x + row * x_row + c * x_column, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * out_row + c * out_column, e / tl.sum(e, 0), mask=c < n)


def softmax(x):
    """Softmax of each row of a matrix of at most 16384 columns."""
    assert x.ndim == 2, f"expected a matrix, got {tuple(x.shape)}"
    assert x.dtype in (torch.float16, torch.bfloat16, torch.float32), f"{x.dtype} is not supported"
    rows, columns = x.shape
    if columns > MAX_COLUMNS:
        raise ValueError(f"at most {MAX_COLUMNS} columns, got {columns}")
    out = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
    if x.numel():
        width = triton.next_power_of_2(columns)
        warps = 4 if width <= 2048 else 8 if width <= 8192 else 16
        _row[(rows,)](out, x, *out.stride(), *x.stride(), columns, width, num_warps=warps)
    return out


def ordinary(dtype):
    for shape in ((4, 100), (1, 1), (2, 9000), (50, 3), (0, 4), (4, 0)):
        x = torch.randn(shape).to(dtype)
        yield str(shape), (softmax(x), torch.softmax(x.double(), -1))
    x = torch.randn(5, 60).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40] = float("-inf"), float("nan"), float("inf"), float("-inf")
    yield "special", (softmax(x), torch.softmax(x.double(), -1))
    for x in (
        torch.randn(30, 7).to(dtype).mT,
        torch.randn(1, 20).to(dtype).expand(3, 20),
        torch.randn(9, 90).to(dtype)[1:8, 3:70:2],
    ):
        yield "strided", (softmax(x), torch.softmax(x.double(), -1))
