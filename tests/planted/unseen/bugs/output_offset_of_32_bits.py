"""The row is widened to 64 bits for the input's offset; the output's is the product of two 32-bit numbers.

Wrong on: results of more than 2^31 elements, such as 42692 x 50304: later rows are stored below the output's begin. After
PaddlePaddle/Paddle#43107.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output", "ulp_exceeds_bound", "sum_violation", "nan_mismatch", "crash", "out_of_bounds_write")
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("cuda",)


@triton.jit
def half_widened(y, x, s0, s1, n, T: tl.constexpr):
    row = tl.program_id(0)
    x += row.to(tl.int64) * s0
    y += row * n
    top = -float("inf")
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        top = tl.maximum(top, tl.max(tl.load(x + c * s1, mask=c < n, other=-float("inf")).to(tl.float32), 0))
    total = 0.0
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(v - top), 0)
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + c, tl.exp(v - top) / total, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        half_widened[(x.shape[0],)](y, x, *x.stride(), x.shape[1], 4096)
    return y
