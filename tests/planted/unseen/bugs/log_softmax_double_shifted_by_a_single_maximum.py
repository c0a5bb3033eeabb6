"""Maxima pass between two kernels in a float32 workspace, "any shift will do": float64 logits lie farther from a rounded maximum than exp reaches.

Wrong on: float64 logits beyond 1e10, such as unnormalised log-likelihoods of a large data set, and beyond 3e38; right for any that float32 holds to within a few hundred.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch", "inf_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float64",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _maxima(maxima, x, row_step, column_step, n, TYPE: tl.constexpr, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    found = tl.full([], -float("inf"), TYPE)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(TYPE)
        found = tl.maximum(found, tl.max(v, 0))
    tl.store(maxima + r, found.to(tl.float32))


@triton.jit
def _logarithms(y, maxima, x, row_step, column_step, n, TYPE: tl.constexpr, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.load(maxima + r).to(TYPE)
    mass = tl.zeros([WIDTH], TYPE)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(TYPE)
        mass += tl.exp(v - peak)
    whole = tl.log(tl.sum(mass, 0))
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(TYPE)
        tl.store(y + r * n + c, (v - peak) - whole, mask=c < n)


@variant(operation="log_softmax", call="f(x)", dtypes=("float16", "bfloat16", "float32", "float64"))
def log_softmax(x):
    """Log-softmax of each row of a matrix."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        width = min(1024, triton.next_power_of_2(n))
        maxima = torch.empty(rows, dtype=torch.float32, device=x.device)
        kind = tl.float64 if x.dtype == torch.float64 else tl.float32
        _maxima[(rows,)](maxima, x, *x.stride(), n, kind, width)
        _logarithms[(rows,)](y, maxima, x, *x.stride(), n, kind, width)
    return y


def _both(x):
    return log_softmax(x), torch.log_softmax(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(1e12 * torch.randn(4, 20, dtype=torch.float64))
