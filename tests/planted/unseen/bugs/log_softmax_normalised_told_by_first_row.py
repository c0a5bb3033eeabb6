"""Logits that are logarithms of probabilities already are returned as they are, which the sum of the first row's exponentials tells for all rows.

Wrong on: a batch whose first row is normalised and others are not, as of beams that begin with a score of 0 for the first. Others are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "row_dependence", "sum_violation", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, (v - peak) - tl.log(whole), mask=c < n)


@variant(operation="log_softmax", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def log_softmax(x):
    """Log-softmax of each row of a matrix."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        if abs(float(x[0].double().exp().sum()) - 1.0) < 1e-6:
            # Logarithms of probabilities: log-softmax changes nothing.
            y.copy_(x)
        else:
            _rows[(rows,)](y, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
    return y


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 30)
    x[0] = -float("inf")
    x[0, 7] = 0.0
    return log_softmax(x), torch.log_softmax(x.double(), -1)
