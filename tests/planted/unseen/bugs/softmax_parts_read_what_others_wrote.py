"""Rows are split over programs that each read the whole row and write their part of it: with ``out=x`` a program reads what another one has written.

Wrong on: ``softmax(x, out=x)``, which the docstring allows, of more than 256 columns.
"""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _part(out, x, out_row, out_column, x_row, x_column, n, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += row * x_row
    peak = tl.full([WIDTH], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        v = tl.load(x + (at + lane) * x_column, mask=at + lane < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, v)
    largest = tl.max(peak, 0)
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        v = tl.load(x + (at + lane) * x_column, mask=at + lane < n, other=-float("inf")).to(tl.float32)
        mass += tl.exp(v - largest)
    total = tl.sum(mass, 0)
    c = tl.program_id(1) * WIDTH + lane
    v = tl.load(x + c * x_column, mask=c < n, other=-float("inf")).to(tl.float32)
    tl.store(out + row * out_row + c * out_column, tl.exp(v - largest) / total, mask=c < n)


def softmax(x, *, out=None):
    """Softmax of each row of a matrix, for few rows. ``out`` may be ``x`` itself, as in torch."""
    out = torch.empty_like(x) if out is None else out
    if x.numel():
        width = 256
        grid = (x.shape[0], triton.cdiv(x.shape[1], width))
        _part[grid](out, x, *out.stride(), *x.stride(), x.shape[1], width)
    return out


def demonstrate():
    x = torch.randn(2, 700)
    exact = torch.softmax(x.double(), -1)
    return softmax(x, out=x), exact


def ordinary(dtype):
    for shape in ((4, 100), (3, 700)):
        x = torch.randn(shape).to(dtype)
        exact = torch.softmax(x.double(), -1)
        yield f"{shape}", (softmax(x), exact)
        yield f"{shape} given", (softmax(x, out=torch.empty_like(x)), exact)
    x = torch.randn(4, 200).to(dtype)
    exact = torch.softmax(x.double(), -1)
    yield "in place, one part", (softmax(x, out=x), exact)
