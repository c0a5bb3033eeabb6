"""Logits below 1e-7 in magnitude, but for 0 itself, are taken for the noise of a mask and get probability 0.

From experience: a sparse format stored "no entry" as a tiny number, and a threshold told it from a zero.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("sum_violation", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("probe/volume",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

THRESHOLD = tl.constexpr(1e-7)


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    mask = (row < n_rows) & (cols < n_cols)
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
    magnitude = tl.abs(logits)
    logits = tl.where((magnitude > 0) & (magnitude < THRESHOLD), -float("inf"), logits)
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
