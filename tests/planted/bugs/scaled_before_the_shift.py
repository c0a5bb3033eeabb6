"""Multiplies by log2(e) before it subtracts the maximum: the product's rounding grows with the logits' size.

Reports: pytorch/pytorch#100775, pytorch/pytorch#163932 (recomputed products that differ from the stored maximum).
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("shifted/normal-513", "shifted/spacing-0.25-33")
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32) * 1.4426950408889634
    numerator = tl.exp2(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
