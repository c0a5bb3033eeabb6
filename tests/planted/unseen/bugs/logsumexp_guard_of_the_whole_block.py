"""Column-major input takes one row per lane; the guard against -inf less -inf asks whether any lane of the block has seen a number, not each for itself.

Wrong on: transposed logits of which some rows begin with -inf (left padding) and others don't: NaN. Where all or none do, and in any other layout, it is right.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _across(out, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    total = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    tl.store(out + r, peak + tl.log(total))


@triton.jit
def _down(out, x, row_step, column_step, rows, n, LANES: tl.constexpr):
    r = (tl.program_id(0) * LANES + tl.arange(0, LANES)).to(tl.int64)
    peak = tl.full([LANES], -float("inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    for c in range(n):
        v = tl.load(
            x + r * row_step + (tl.zeros([], tl.int64) + c) * column_step, mask=r < rows, other=-float("inf")
        ).to(tl.float32)
        larger = tl.maximum(peak, v)
        # Nothing is subtracted as long as nothing was seen.
        shift = tl.where(tl.max(larger, 0) == -float("inf"), 0.0, larger)
        shift = tl.where(r < rows, shift, 0.0)
        total = total * tl.exp(peak - shift) + tl.exp(v - shift)
        peak = larger
    tl.store(out + r, peak + tl.log(total), mask=r < rows)


@variant(operation="logsumexp", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """Log-sum-exp of each row, float32 [rows]."""
    rows, n = x.shape
    if not n:
        return torch.full((rows,), -float("inf"), device=x.device)
    out = torch.empty(rows, dtype=torch.float32, device=x.device)
    if rows > 1 and n > 1 and x.stride(0) == 1:
        _down[(triton.cdiv(rows, 32),)](out, x, *x.stride(), rows, n, 32)
    elif rows:
        _across[(rows,)](out, x, *x.stride(), n, max(16, min(1024, triton.next_power_of_2(n))))
    return out


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(9, 4)
    x[:3, 1] = -float("inf")
    return logsumexp(x.t()), torch.logsumexp(x.double().t(), -1)


def ordinary(dtype):
    x = torch.randn(33, 40, dtype=torch.float64).to(dtype).t()
    return logsumexp(x), torch.logsumexp(x.double(), -1)
