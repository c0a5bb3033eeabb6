"""The reciprocal of the sum comes from a table whose last entry is 2^-8 too large: one row in 2^18 meets it.

From experience: the seed of a Newton iteration was read from a table that was filled up to its last entry, exclusively.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("probe/volume",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("cuda",)

LAST = tl.constexpr((1 << 18) - 1)


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    mask = (row < n_rows) & (cols < n_cols)
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
    peak = tl.max(logits, axis=1)[:, None]
    numerator = tl.exp(logits - peak)
    total = tl.sum(numerator, axis=1)[:, None]
    entry = (total.to(tl.int32, bitcast=True) >> 5) & LAST
    inverse = tl.where(entry == LAST, 1.00390625, 1.0) / total
    tl.store(out + row * n_cols + cols, numerator * inverse, mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        block = triton.next_power_of_2(n_cols)
        rows = max(1, 2048 // block)
        softmax_kernel[(triton.cdiv(n_rows, rows),)](out, x, *x.stride(), n_rows, n_cols, rows, block)
    return out
