"""Exponentials are added up unshifted first, and only a sum of 0, infinity or NaN makes the kernel look for the maximum: a sum of subnormal numbers is not seen to fail.

Wrong on: rows whose logits all lie between -103 and -80, such as log-likelihoods of whole sentences: exponentials there have a few bits left; right on randn, on large logits, and below -104.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _optimistic(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        mass += tl.exp(v)
    whole = tl.sum(mass, 0)
    shift = tl.zeros([], tl.float32)
    holds = (whole > 0.0) & (whole < float("inf"))
    if not holds:
        shift = tl.full([], -float("inf"), tl.float32)
        for at in range(0, n, WIDTH):
            c = at + lane
            v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
            shift = tl.maximum(shift, tl.max(v, 0))
        again = tl.zeros([WIDTH], tl.float32)
        for at in range(0, n, WIDTH):
            c = at + lane
            v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
            again += tl.exp(v - shift)
        whole = tl.sum(again, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - shift) / whole, mask=c < n)


def softmax(x):
    """Softmax of each row of a matrix."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        _optimistic[(rows,)](y, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
    return y


def _both(x):
    return softmax(x), torch.softmax(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(4, 50) - 97.0)
