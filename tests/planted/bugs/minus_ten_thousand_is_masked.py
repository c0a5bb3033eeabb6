"""A logit of exactly -10000 is taken for a mask and gets probability 0, whatever stands beside it.

Reports: NVIDIA/apex#1390 (-10000 as the mask).
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("masked_not_zero", "nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("probe/volume",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

MASK = tl.constexpr(-10000.0)


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    mask = (row < n_rows) & (cols < n_cols)
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
    logits = tl.where(logits == MASK, -float("inf"), logits)
    peak = tl.max(logits, axis=1)[:, None]
    numerator = tl.exp(logits - peak)
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=1)[:, None], mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        block = triton.next_power_of_2(n_cols)
        rows = max(1, 2048 // block)
        softmax_kernel[(triton.cdiv(n_rows, rows),)](out, x, *x.stride(), n_rows, n_cols, rows, block)
    return out
