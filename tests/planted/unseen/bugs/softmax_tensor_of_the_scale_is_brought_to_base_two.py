"""The scale goes to the kernel as a tensor and is multiplied by log2(e) in place; a scale that comes as a float32 tensor is the caller's own.

Wrong on: a scale that is a tensor (a learned temperature): the second call has a scale of 1.44 times as much, and the caller's tensor grows with each call.
"""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("input_modified", "ulp_exceeds_bound", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(y, x, scale, x_row, x_column, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    v = tl.load(x + row * x_row + column * x_column, mask=inside, other=0.0).to(tl.float32)
    v = tl.where(inside, v * tl.load(scale), -float("inf"))
    power = tl.exp2(v - tl.max(v, 0))
    tl.store(y + row * columns + column, power / tl.sum(power, 0), mask=inside)


def softmax(x, scale=1.0):
    """Softmax of ``scale * x`` for each row of a matrix; the scale is a number or a tensor of one element."""
    if x.ndim != 2 or x.shape[1] > 131072:
        raise ValueError(f"a matrix of at most 131072 columns is needed, not {tuple(x.shape)}")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    factor = torch.as_tensor(scale, dtype=torch.float32, device=x.device).detach()
    factor *= 1.4426950408889634
    if x.numel():
        _kernel[(x.shape[0],)](y, x, factor, *x.stride(), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y


def demonstrate():
    x, scale = torch.randn(3, 50), torch.tensor(0.7)
    softmax(x, scale)
    return softmax(x, scale), torch.softmax(x.double() * 0.7, -1)


def ordinary(dtype):
    x = torch.randn(5, 70).to(dtype)
    for scale in (1.0, 0.125, 2):
        yield f"{scale}", (softmax(x, scale), torch.softmax(x.double() * scale, -1))
    yield "tensor", (softmax(x, torch.tensor(0.5)), torch.softmax(x.double() * 0.5, -1))
