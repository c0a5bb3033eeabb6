"""513 to 1024 columns go three rows to a program; a last program with two rows left stores one of them.

Wrong on: such widths with 2, 5, 8, 11 ... rows from 5 on: the last row stays as the memory was.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "unwritten_output")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def threes(y, x, s0, s1, m, n, B: tl.constexpr):
    c = tl.arange(0, B).to(tl.int64)
    base = tl.program_id(0).to(tl.int64) * 3
    left = m - base
    # A whole program takes three rows, a last one what is left.
    count = tl.where(left >= 3, 3, left % 2 + (left // 2) * (m < 3))
    count = tl.where(left == 2, tl.where(m > 2, 1, 2), count)
    for k in range(3):
        r = base + k
        inside = (c < n) & (k < count)
        v = tl.load(x + r * s0 + c * s1, mask=inside, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y + r * n + c, e / tl.sum(e, 0), mask=inside)


def softmax(x):
    m, n = x.shape
    if not 512 < n <= 1024 or m == 0:
        return torch.softmax(x, -1)
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    threes[(triton.cdiv(m, 3),)](y, x, *x.stride(), m, n, 1024)
    return y


def demonstrate():
    x = torch.randn(8, 600)
    return softmax(x), torch.softmax(x.double(), -1)
