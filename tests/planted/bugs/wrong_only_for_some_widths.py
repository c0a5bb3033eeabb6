"""A fast path for widths that are multiples of 48 reduces the first 32 lanes of each group of 48 alone.

Report: MetaX-MACA/vLLM-metax#270 (a dispatch slip for one shape). Powers of two and their neighbours take the right path.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("sum_violation",)
SHOWN_BY = ("probe/sizes",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    summed = numerator
    if GROUP == 48:
        summed = tl.where(cols % GROUP < 32, numerator, 0.0)
    tl.store(out + row * n_cols + cols, numerator / tl.sum(summed, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        group = 48 if n_cols % 48 == 0 else 32
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, group, triton.next_power_of_2(n_cols))
    return out
