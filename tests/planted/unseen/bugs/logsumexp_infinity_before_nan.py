"""A row whose maximum is +inf answers +inf at once, without a look at the rest: a NaN beside an infinity disappears.

Wrong on: rows that hold both +inf and NaN, which are NaN, as a broken layer's are. Each of them alone is right, and so are masked rows.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _lse(out, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peaks = tl.full([WIDTH], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        # NaN is met by the exponentials below.
        peaks = tl.where(v > peaks, v, peaks)
    peak = tl.max(peaks, 0)
    if (peak == float("inf")) | (n == 0):
        tl.store(out + r, peak)
    else:
        shift = tl.where(peak == -float("inf"), 0.0, peak)
        mass = tl.zeros([WIDTH], tl.float32)
        for at in range(0, n, WIDTH):
            c = at + lane
            v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
            mass += tl.exp(v - shift)
        tl.store(out + r, shift + tl.log(tl.sum(mass, 0)))


@variant(operation="logsumexp", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """Log-sum-exp of each row, float32 [rows]."""
    out = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    if x.shape[0]:
        width = max(16, min(1024, triton.next_power_of_2(max(1, x.shape[1]))))
        _lse[(x.shape[0],)](out, x, *x.stride(), x.shape[1], width)
    return out


def demonstrate():
    x = torch.tensor([[0.0, float("inf"), 1.0, float("nan")], [0.0, 1.0, 2.0, 3.0]])
    return logsumexp(x), torch.logsumexp(x.double(), -1)
