"""Right: terms below 2^-12 of the maximum's are added up in an account of their own, in float64 as the others, and both meet at the end: a crowd of them counts."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _two_accounts(out, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    peak = tl.full([], -float("inf"), tl.float64)
    for at in range(0, n, WIDTH):
        c = at + lane
        peak = tl.maximum(peak, tl.max(tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float64), 0))
    shift = tl.where(tl.abs(peak) == float("inf"), 0.0, peak)
    large = tl.zeros([WIDTH], tl.float64)
    small = tl.zeros([WIDTH], tl.float64)
    for at in range(0, n, WIDTH):
        c = at + lane
        e = tl.exp(tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float64) - shift)
        is_small = e < 0.000244140625
        # NaN is not small and goes to the others.
        large += tl.where(is_small, 0.0, e)
        small += tl.where(is_small, e, 0.0)
    tl.store(out + r, (shift + tl.log(tl.sum(large, 0) + tl.sum(small, 0))).to(tl.float32))


@variant(operation="logsumexp", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """Log-sum-exp of each row, float32 [rows]."""
    rows, n = x.shape
    out = torch.full((rows,), -float("inf"), dtype=torch.float32, device=x.device)
    if x.numel():
        _two_accounts[(rows,)](out, x, *x.stride(), n, min(512, triton.next_power_of_2(n)))
    return out
