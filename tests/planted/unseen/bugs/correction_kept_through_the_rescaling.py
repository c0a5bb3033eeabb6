"""Kahan's correction goes along with an online sum: the sum is rescaled where the maximum grows, what it lost so far is not.

Wrong on: a long row of level logits with one far above them behind (32768 columns, a logit of 25 at the end): 1e-3 off, all columns alike; right on randn, where the maximum hardly grows once the sum is large.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _compensated(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    lost = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift)
        term = tl.sum(tl.exp(v - shift), 0) - lost
        grown = whole + term
        lost = (grown - whole) - term
        whole = grown
        peak = larger
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


def softmax(x):
    """Softmax of each row of a matrix, one online pass with a compensated sum and one that writes."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        _compensated[(rows,)](y, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
    return y


def _both(x):
    return softmax(x), torch.softmax(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    x = 0.02 * torch.randn(4, 32768)
    x[:, -1] = 25.0
    return _both(x)
