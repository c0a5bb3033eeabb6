"""Autotuned over a block that has to hold the row, without a loop: the quickest of three is the smallest, which computes a part.

Wrong on: rows of more than 1024 columns, as soon as the trial runs prefer the block of 1024; up to 1024 every block is right.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output", "ulp_exceeds_bound", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("cuda",)


@triton.autotune(
    configs=[triton.Config({"B": block}, num_warps=block // 256) for block in (1024, 2048, 4096)],
    key=["n"],
)
@triton.jit
def one_block(y, x, s0, s1, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B).to(tl.int64)
    v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


def softmax(x):
    if x.numel() == 0 or x.shape[1] > 4096:
        return torch.softmax(x, -1)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    one_block[(x.shape[0],)](y, x, *x.stride(), x.shape[1])
    return y
