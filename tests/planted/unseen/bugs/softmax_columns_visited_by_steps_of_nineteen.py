"""Wide rows are visited in steps of 19 columns, to spread neighbouring programs over the memory channels: no permutation where 19 divides the width.

Wrong on: rows wider than 4096 whose length is a multiple of 19, such as the vocabulary of 21128 of Chinese BERT: one column in 19 is read and written.
"""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("ulp_exceeds_bound", "sum_violation", "unwritten_output", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(y, x, x_row, x_column, columns, step, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * x_row
    y += row * columns
    lane = tl.arange(0, TILE).to(tl.int64)
    peak = tl.full([TILE], -float("inf"), tl.float32)
    mass = tl.zeros([TILE], tl.float32)
    for first in range(0, columns, TILE):
        place = first + lane
        column = (place * step) % columns
        v = tl.load(x + column * x_column, mask=place < columns, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, v)
    largest = tl.max(peak, 0)
    for first in range(0, columns, TILE):
        place = first + lane
        column = (place * step) % columns
        v = tl.load(x + column * x_column, mask=place < columns, other=-float("inf")).to(tl.float32)
        mass += tl.exp(v - largest)
    total = tl.sum(mass, 0)
    for first in range(0, columns, TILE):
        place = first + lane
        column = (place * step) % columns
        v = tl.load(x + column * x_column, mask=place < columns, other=-float("inf")).to(tl.float32)
        tl.store(y + column, tl.exp(v - largest) / total, mask=place < columns)


def softmax(x):
    """Softmax of each row of a matrix, of any width."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        rows, columns = x.shape
        step = 19 if columns > 4096 else 1
        tile = min(4096, triton.next_power_of_2(columns))
        _kernel[(rows,)](y, x, *x.stride(), columns, step, tile)
    return y


def demonstrate():
    x = torch.randn(2, 21128)
    return softmax(x), torch.softmax(x.double(), -1)


def ordinary(dtype):
    for shape in ((4, 128), (3, 1000), (2, 8192), (2, 5000), (2, 304)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (softmax(x), torch.softmax(x.double(), -1))
