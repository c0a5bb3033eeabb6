"""The sum is raised to 1, "which the peak alone gives", against a division by zero: the maximum of NaN and 1 is 1.

Wrong on: rows that hold a NaN or +inf, which are NaN throughout: only these elements are, and the others exceed what a sum of one allows.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        peak = tl.maximum(
            peak, tl.max(tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32), 0)
        )
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        mass += tl.exp(
            tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32) - peak
        )
    whole = tl.maximum(tl.sum(mass, 0), 1.0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        _rows[(rows,)](y, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
    return y


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(3, 20)
    x[1, 4] = float("nan")
    return softmax(x), torch.softmax(x.double(), -1)
