"""Columns before the first aligned address are peeled off; of a row shorter than that head, the neighbour's columns are taken too.

Wrong on: rows of 2 to 6 columns whose base is not aligned, as in ``flat[1:].view(-1, 3)``; aligned bases and wider rows are right.
"""

import torch
import triton
import triton.language as tl

EXPECTED = (
    "ulp_exceeds_bound",
    "sum_violation",
    "nan_mismatch",
    "out_of_bounds_read",
    "row_dependence",
    "wrong_layout",
)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

LANES = 8


@triton.jit
def peeled(y, x, pitch, n, head, HEAD: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    h = tl.arange(0, HEAD)
    b = head + tl.arange(0, B)
    first = tl.load(x + r * pitch + h, mask=h < head, other=-float("inf")).to(tl.float32)
    rest = tl.load(x + r * pitch + b, mask=b < n, other=-float("inf")).to(tl.float32)
    top = tl.maximum(tl.max(first, 0), tl.max(rest, 0))
    total = tl.sum(tl.exp(first - top), 0) + tl.sum(tl.exp(rest - top), 0)
    tl.store(y + r * n + h, tl.exp(first - top) / total, mask=h < tl.minimum(head, n))
    tl.store(y + r * n + b, tl.exp(rest - top) / total, mask=b < n)


def softmax(x):
    rows, n = x.shape
    if x.numel() == 0 or x.stride(1) != 1 or n > 8192:
        return torch.softmax(x, -1)
    y = torch.empty((rows, n), dtype=x.dtype, device=x.device)
    head = -(x.data_ptr() // x.element_size()) % LANES
    if x.storage_offset() + (rows - 1) * x.stride(0) + head > x.untyped_storage().nbytes() // x.element_size():
        return torch.softmax(x, -1)
    peeled[(rows,)](y, x, x.stride(0), n, head, LANES, triton.next_power_of_2(n))
    return y


def demonstrate():
    x = torch.randn(64).half()[1:61].view(-1, 3)[:18]
    return softmax(x), torch.softmax(x.double(), -1)
