"""The scale, a number or a tensor of one element of any type, goes to the kernel as a tensor of the kernel's own; log2(e) comes after the subtraction."""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(y, x, scale, x_row, x_column, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    v = tl.load(x + row * x_row + column * x_column, mask=inside, other=0.0).to(tl.float32)
    v = tl.where(inside, v * tl.load(scale), -float("inf"))
    power = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * columns + column, power / tl.sum(power, 0), mask=inside)


def softmax(x, scale=1.0):
    """Softmax of ``scale * x`` for each row of a matrix."""
    if x.ndim != 2:
        raise ValueError(f"a matrix is needed, not {tuple(x.shape)}")
    given = torch.as_tensor(scale, device=x.device).detach()
    if given.numel() != 1:
        raise ValueError(f"the scale is one number, not {tuple(given.shape)}")
    factor = given.reshape(1).to(torch.float32, copy=True)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        _kernel[(x.shape[0],)](y, x, factor, *x.stride(), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y


def ordinary(dtype):
    x = torch.randn(7, 70).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40], x[4] = float("-inf"), float("nan"), float("inf"), float("-inf"), -3e4
    kept = torch.tensor(0.75)
    for scale in (1.0, 0.125, kept, -2, kept, torch.tensor([0.5], dtype=torch.float64), 0.0):
        yield f"{scale}", (softmax(x, scale), torch.softmax(x.double() * float(scale), -1))
    for shape in ((0, 4), (4, 0), (1, 1), (3, 5000)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (softmax(x, 0.5), torch.softmax(x.double() * 0.5, -1))
