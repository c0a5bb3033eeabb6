"""The result is added to an output of zeros, and a warm-up launch was left in: every probability is doubled.

From experience. The warm-up is a second launch with the same arguments.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("sum_violation", "out_of_range")
SHOWN_BY = ("widths/129",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.atomic_add(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    if out.numel():
        arguments = (out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
        softmax_kernel[(n_rows,)](*arguments)
        softmax_kernel[(n_rows,)](*arguments)
    return out.to(x.dtype)
