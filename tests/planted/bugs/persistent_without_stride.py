"""A fixed grid of 32 programs whose loop strides by 1 and ends after its own share, rounded down: remaining rows stay unwritten.

From experience: ``n_rows // programs`` in place of ``cdiv``.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("unwritten_output",)
SHOWN_BY = ("rows/1000x5", "one-hot/every-position-33")
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, rows_each, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    first = tl.program_id(0).to(tl.int64) * rows_each
    for row in range(first, first + rows_each):
        offsets = row * stride_row + cols.to(tl.int64) * stride_col
        logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
        numerator = tl.exp(logits - tl.max(logits, axis=0))
        tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        programs = min(32, n_rows)
        arguments = (n_rows // programs, n_cols, triton.next_power_of_2(n_cols))
        softmax_kernel[(programs,)](out, x, *x.stride(), *arguments)
    return out
