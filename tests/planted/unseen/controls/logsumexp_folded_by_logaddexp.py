"""Right: there is no maximum: each lane keeps a logarithm in float64 and folds the next column in by logaddexp, and lanes are folded the same way at the end."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _logaddexp(a, b):
    # Equal numbers, and equal infinities above all, differ by nothing.
    apart = tl.where(a == b, 0.0, tl.abs(a - b))
    return tl.where(a > b, a, b) + tl.log(1.0 + tl.exp(-apart))


@triton.jit
def _folded(out, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    logarithms = tl.full([WIDTH], -float("inf"), tl.float64)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float64)
        logarithms = _logaddexp(logarithms, v)
    # Half of the lanes are folded upon the other half, until one is left.
    tl.store(out + r, tl.reduce(logarithms, 0, _logaddexp))


@variant(operation="logsumexp", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """Log-sum-exp of each row, float32 [rows]."""
    out = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    if x.shape[0]:
        _folded[(x.shape[0],)](out, x, *x.stride(), x.shape[1], 128)
    return out
