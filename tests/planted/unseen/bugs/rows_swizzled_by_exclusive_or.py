"""Programs take their rows in an order swizzled by an exclusive or within eights, where rows make whole fours: a last group of four may be sent beyond the end.

Wrong on: 100 rows (also 108, 116, 124, 164 ...): the last four stay unwritten; right below 64 rows, for multiples of 8, and for 68, 76, 84 and 92.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output", "ulp_exceeds_bound", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _swizzled(y, x, row_step, column_step, rows, n, SWIZZLE: tl.constexpr, WIDTH: tl.constexpr):
    program = tl.program_id(0)
    if SWIZZLE:
        # Neighbours in time are not neighbours in memory, so that they meet in other channels of the L2.
        program = program ^ ((program >> 3) & 7)
    r = program.to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=(r < rows) & (c < n), other=-float("inf"))
        peak = tl.maximum(peak, tl.max(v.to(tl.float32), 0))
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=(r < rows) & (c < n), other=-float("inf"))
        mass += tl.exp(v.to(tl.float32) - peak)
    whole = tl.sum(mass, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=(r < rows) & (c < n), other=-float("inf"))
        tl.store(y + r * n + c, tl.exp(v.to(tl.float32) - peak) / whole, mask=(r < rows) & (c < n))


def softmax(x):
    """Softmax of each row of a matrix."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        swizzle = rows >= 64 and rows % 4 == 0
        _swizzled[(rows,)](y, x, *x.stride(), rows, n, swizzle, min(1024, triton.next_power_of_2(n)))
    return y


def _both(x):
    return softmax(x), torch.softmax(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(100, 40))
