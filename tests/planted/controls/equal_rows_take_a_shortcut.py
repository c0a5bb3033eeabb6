"""A row of equal logits takes a shortcut to 1 / N, a signed zero is made positive, and NaN and masks still count."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    mask = (row < n_rows) & (cols < n_cols)
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
    logits = tl.where(logits == 0, 0.0, logits)
    peak = tl.max(logits, axis=1)[:, None]
    least = tl.min(tl.where(mask, logits, float("inf")), axis=1)[:, None]
    numerator = tl.exp(logits - peak)
    total = tl.sum(numerator, axis=1)[:, None]
    equal = (peak == least) & (total > 0)
    tl.store(out + row * n_cols + cols, tl.where(equal, 1.0 / n_cols, numerator / total), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        block = triton.next_power_of_2(n_cols)
        rows = max(1, 2048 // block)
        softmax_kernel[(triton.cdiv(n_rows, rows),)](out, x, *x.stride(), n_rows, n_cols, rows, block)
    return out
