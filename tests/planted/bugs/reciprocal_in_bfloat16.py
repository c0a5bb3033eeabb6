"""Multiplies by a reciprocal of 8 bits without a Newton step.

Report: tenstorrent/tt-metal#52045 (rows sum to 0.865: 16-bit accumulator, approximate reciprocal).
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("sum_violation",)
SHOWN_BY = ("normal/scale-3-129",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    inverse = (1.0 / tl.sum(numerator, axis=0)).to(tl.bfloat16).to(tl.float32)
    tl.store(out + row * n_cols + cols, numerator * inverse, mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
