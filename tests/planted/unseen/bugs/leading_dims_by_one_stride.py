"""Rows of three and four dimensions are found by the stride of the last but one alone, as if the leading ones were packed above it.

Wrong on: ``qk.permute(0, 2, 1, 3)`` and ``scores[:, :8]`` with a batch above it; packed tensors and all matrices are right.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "wrong_layout", "out_of_bounds_read")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def rows_kernel(y, x, s0, s1, n, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    total = 0.0
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(v - top), 0)
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - top) / total, mask=c < n)


@variant(dimensions=4)
def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        n = x.shape[-1]
        rows_kernel[(x.numel() // n,)](y, x, x.stride(-2), x.stride(-1), n, 512)
    return y


def demonstrate():
    x = torch.randn(2, 5, 3, 20).permute(0, 2, 1, 3)
    return softmax(x), torch.softmax(x.double(), -1)
