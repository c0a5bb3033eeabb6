"""Padding is 0.0 in the maximum and only left out of the sum: rows far below zero underflow, and 0 / 0 is NaN.

From experience; the condition is that of unslothai/unsloth#10616 and vllm-project/vllm#55009.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("negative/minus-100-513", "negative/minus-100-129")
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=mask, other=0.0).to(tl.float32)
    numerator = tl.where(mask, tl.exp(logits - tl.max(logits, axis=0)), 0.0)
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
