"""Offsets are 64-bit only for inputs of 2^31 elements or more, but a small view with strides may span more than that.

Wrong on: three rows of 16 that lie 2^30 + 64 elements apart: the last one is read before the input. Right for all views that span less than 2^31 elements.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("out_of_bounds_read", "crash", "wrong_layout", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(y, x, stride_row, stride_col, n_cols, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    y += row * n_cols
    x += row * stride_row
    maximum = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        if WIDE:
            cols = cols.to(tl.int64)
        logits = tl.load(x + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(maximum, tl.max(logits, axis=0))
        safe = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(maximum - safe) + tl.sum(tl.exp(logits - safe), axis=0)
        maximum = larger
    safe = tl.where(maximum == -float("inf"), 0.0, maximum)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        if WIDE:
            cols = cols.to(tl.int64)
        logits = tl.load(x + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(y + cols, tl.exp(logits - safe) / total, mask=cols < n_cols)


@variant()
def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if x.numel():
        wide = x.numel() >= 2**31
        block = min(1024, triton.next_power_of_2(n_cols))
        softmax_kernel[(n_rows,)](y, x, x.stride(0), x.stride(1), n_cols, wide, block)
    return y


def demonstrate():
    torch.manual_seed(0)
    pitch = 2**30 + 64
    # The wrapped offset lies within the memory, whose pages cost nothing as long as nobody writes to them.
    memory = torch.empty(2**31 + 2 * pitch + 16, dtype=torch.float16)
    x = memory.as_strided((3, 16), (pitch, 1), 2**31)
    x.copy_(torch.randn(3, 16))
    return softmax(x), torch.softmax(x.double(), -1)
