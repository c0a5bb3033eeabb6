"""Computes the rows per program as ``4096 // n_cols``: a tensor without columns ends in ZeroDivisionError.

Reports: pytorch/pytorch#17262, pytorch/pytorch#17256 ((10, 0) and (0, 2)).
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("empty_refused",)
SHOWN_BY = ("empty/10x0",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    offsets = rows * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=1)[:, None])
    tl.store(out + rows * n_cols + cols, numerator / tl.sum(numerator, axis=1)[:, None], mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    rows_each = triton.next_power_of_2(max(1, min(64, 4096 // n_cols)))
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(n_rows, rows_each),)
    if n_rows:
        block = triton.next_power_of_2(n_cols)
        softmax_kernel[grid](out, x, *x.stride(), n_rows, n_cols, rows_each, block)
    return out
