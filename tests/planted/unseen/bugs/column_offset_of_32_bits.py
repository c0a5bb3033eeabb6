"""Rows are addressed in 64 bits, columns by a 32-bit product with their stride, which is small only where rows are packed.

Wrong on: the transpose of a matrix with rows of 2^24 elements and more than 128 of them: column 128 is read before the input.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "wrong_layout", "crash", "out_of_bounds_read")
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("cuda",)


@triton.jit
def columns_narrow(y, x, s0, s1, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, T):
        c = k + tl.arange(0, T)
        v = tl.load(x + row * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    total = 0.0
    for k in range(0, n, T):
        c = k + tl.arange(0, T)
        v = tl.load(x + row * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(v - top), 0)
    for k in range(0, n, T):
        c = k + tl.arange(0, T)
        v = tl.load(x + row * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + row * n + c, tl.exp(v - top) / total, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        columns_narrow[(x.shape[0],)](y, x, *x.stride(), x.shape[1], 1024)
    return y
