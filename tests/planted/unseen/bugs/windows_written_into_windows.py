"""The output is given the input's strides; where rows overlap, as sliding windows do, so do the output's, and each spoils the last.

Wrong on: ``series.unfold(0, 16, 1)`` and other windows that overlap. Expanded, transposed and sliced input is right.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "wrong_layout", "nondeterministic", "output_reused")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def rows_kernel(y, x, y0, y1, x0, x1, n, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * x0 + c * x1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    total = 0.0
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * x0 + c * x1, mask=c < n, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(v - top), 0)
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * x0 + c * x1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * y0 + c * y1, tl.exp(v - top) / total, mask=c < n)


def softmax(x):
    strides = x.stride() if 0 not in x.stride() else torch.empty(x.shape, device="meta").stride()
    y = torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device)
    if x.numel():
        rows_kernel[(x.shape[0],)](y, x, *y.stride(), *x.stride(), x.shape[1], 512)
    return y


def demonstrate():
    x = torch.randn(60).unfold(0, 16, 1)
    return softmax(x), torch.softmax(x.double(), -1)
