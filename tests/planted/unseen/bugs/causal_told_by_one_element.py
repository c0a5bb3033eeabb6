"""A square whose first row masks the second column is taken for causal scores, and columns right of the diagonal are left out unread.

Wrong on: any square matrix with -inf at [0, 1] that isn't triangular, such as the masked adjacency of a graph or padded positions.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "sum_violation", "masked_not_zero")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def causal_or_full(y, x, s0, s1, n, SQUARE: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B).to(tl.int64)
    end = n
    if SQUARE:
        causal = tl.load(x + s1).to(tl.float32) == -float("inf")
        end = tl.where(causal, tl.minimum(r + 1, n), n)
    v = tl.load(x + r * s0 + c * s1, mask=c < end, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


def softmax(x):
    m, n = x.shape
    if x.numel() == 0 or n > 8192:
        return torch.softmax(x, -1)
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    causal_or_full[(m,)](y, x, *x.stride(), n, m == n and n > 1, triton.next_power_of_2(n))
    return y


def demonstrate():
    x = torch.randn(32, 32)
    x.masked_fill_(torch.rand(32, 32) < 0.3, -float("inf"))
    x[0, 1] = -float("inf")
    x.fill_diagonal_(0.0)
    return softmax(x), torch.softmax(x.double(), -1)
