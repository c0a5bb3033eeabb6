"""Rows that are overlapping windows of one series take their exponentials once for the whole series, with one maximum for all windows.

Wrong on: ``series.unfold(0, 16, 4)`` of a series whose level changes by a hundred: windows far below its maximum are 0 / 0. Others are right.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "row_dependence", "sum_violation", "ulp_exceeds_bound", "wrong_layout")
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
    whole = tl.sum(mass, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


def _windows(x):
    rows, n = x.shape
    series = x.as_strided(((rows - 1) * x.stride(0) + n,), (1,)).float()
    # Most elements are in several windows: each exponential is taken once.
    e = torch.exp(series - series.max()).as_strided((rows, n), (x.stride(0), 1))
    return (e / e.sum(1, keepdim=True)).to(x.dtype)


def softmax(x):
    rows, n = x.shape
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not y.numel():
        return y
    if rows > 1 and x.stride(1) == 1 and 0 < x.stride(0) < n:
        return _windows(x)
    _rows[(rows,)](y, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
    return y


def demonstrate():
    torch.manual_seed(0)
    x = torch.cat((torch.randn(60), torch.randn(60) - 150)).unfold(0, 16, 4)
    return softmax(x), torch.softmax(x.double(), -1)
