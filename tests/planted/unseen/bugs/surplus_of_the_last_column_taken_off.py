"""Lanes beyond the row read its last column again, so that no load has a mask, and their surplus is taken off the sum afterwards: digits cancel where that column is the peak.

Wrong on: a row whose largest logit stands last, of a width just above a power of two (8193: the sum of 8193 terms is that of 16384 less 8191 times 1); right where the last column is an ordinary one.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _unmasked(y, x, row_step, column_step, n, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    column = tl.minimum(lane, n - 1).to(tl.int64)
    x += r * row_step
    v = tl.load(x + column * column_step).to(tl.float32)
    peak = tl.max(v, 0)
    powers = tl.exp(v - peak)
    last = tl.load(x + (n - 1).to(tl.int64) * column_step).to(tl.float32)
    # The last column was counted once for each lane beyond it.
    surplus = (BLOCK - n).to(tl.float32) * tl.exp(last - peak)
    tl.store(y + r * n + lane, powers / (tl.sum(powers, 0) - surplus), mask=lane < n)


@variant(call="f(x)", max_columns=131072, dtypes=("float16", "bfloat16", "float32"))
def softmax(x):
    """Softmax of each row, in one block without masked loads."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        _unmasked[(rows,)](y, x, *x.stride(), n, triton.next_power_of_2(n))
    return y


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(2, 8193)
    x[:, -1] = 9.7
    return softmax(x), torch.softmax(x.double(), -1)
