"""The offsets of a tile's columns are promised to be contiguous and aligned, as matrix kernels have it, for every column stride: loads are vectors of neighbours.

Wrong on: transposed or stepped input on a GPU, with a number of columns that is divisible by 16 and gives each thread several of them (more than 128); the interpreter ignores such promises. Right where columns are adjacent.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("crash", "out_of_bounds_read", "ulp_exceeds_bound", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("cuda",)


@triton.jit
def _rows(y, x, row_step, column_step, n, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    # Wide loads need this.
    offsets = tl.max_contiguous(tl.multiple_of(c * column_step, BLOCK), BLOCK)
    v = tl.load(x + r * row_step + offsets, mask=c < n, other=-float("inf")).to(tl.float32)
    powers = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, powers / tl.sum(powers, 0), mask=c < n)


@variant(call="f(x)", max_columns=32768, dtypes=("float16", "bfloat16", "float32"))
def softmax(x):
    """Softmax of each row, in one block."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        _rows[(rows,)](y, x, *x.stride(), n, triton.next_power_of_2(n))
    return y


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(1024, 64, device="cuda").t()
    return softmax(x).cpu(), torch.softmax(x.double(), -1).cpu()
