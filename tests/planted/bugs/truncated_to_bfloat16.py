"""Converts to bfloat16 by cutting off the low half of the float32 bits: up to 1 ULP and always downwards.

From experience: the shift that many kernels wrote before the conversion instruction existed.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("normal/scale-3-129",)
DTYPES = ("bfloat16",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    result = numerator / tl.sum(numerator, axis=0)
    high_half = (result.to(tl.int32, bitcast=True) >> 16).to(tl.int16)
    tl.store(out + row * n_cols + cols, high_half.to(tl.bfloat16, bitcast=True), mask=mask)


@variant(dtypes=("bfloat16",), max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
