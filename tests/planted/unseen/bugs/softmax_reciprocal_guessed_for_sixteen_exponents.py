"""The sum's reciprocal is found by Newton steps from a guess; the exponent of the guess has four bits, so that sums of 65536 and more have one too large.

Wrong on: more than 65536 columns of almost equal logits (a fresh language model, a high temperature, 128256 columns): the steps diverge. Peaked rows are right.
"""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("ulp_exceeds_bound", "sum_violation", "out_of_range", "nan_mismatch", "inf_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _reciprocal(s):
    # No division unit: 1/s of a sum that is at least 1.
    exponent = ((s.to(tl.int32, bitcast=True) >> 23) & 0xFF) - 126
    exponent = tl.minimum(exponent, 16)
    power = tl.exp2(-exponent.to(tl.float32))
    scaled = s * power
    guess = 2.8235294 - 1.8823529 * scaled
    guess = guess * (2.0 - scaled * guess)
    guess = guess * (2.0 - scaled * guess)
    guess = guess * (2.0 - scaled * guess)
    return guess * power


@triton.jit
def _kernel(y, x, x_row, x_column, columns, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * x_row
    y += row * columns
    lane = tl.arange(0, TILE).to(tl.int64)
    peak = tl.full([TILE], -float("inf"), tl.float32)
    mass = tl.zeros([TILE], tl.float32)
    for first in range(0, columns, TILE):
        column = first + lane
        v = tl.load(x + column * x_column, mask=column < columns, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, v)
    largest = tl.max(peak, 0)
    for first in range(0, columns, TILE):
        column = first + lane
        v = tl.load(x + column * x_column, mask=column < columns, other=-float("inf")).to(tl.float32)
        mass += tl.exp(v - largest)
    factor = _reciprocal(tl.sum(mass, 0))
    for first in range(0, columns, TILE):
        column = first + lane
        v = tl.load(x + column * x_column, mask=column < columns, other=-float("inf")).to(tl.float32)
        tl.store(y + column, tl.exp(v - largest) * factor, mask=column < columns)


def softmax(x):
    """Softmax of each row of a matrix, without a division."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        rows, columns = x.shape
        _kernel[(rows,)](y, x, *x.stride(), columns, min(8192, triton.next_power_of_2(columns)))
    return y


def demonstrate():
    x = torch.randn(1, 128256) * 0.02
    return softmax(x), torch.softmax(x.double(), -1)


def ordinary(dtype):
    for shape in ((4, 128), (3, 1000), (2, 8192), (1, 70000)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (softmax(x), torch.softmax(x.double(), -1))
    yield "flat", (softmax(torch.zeros(2, 60000).to(dtype)), torch.full((2, 60000), 1 / 60000, dtype=torch.float64))
