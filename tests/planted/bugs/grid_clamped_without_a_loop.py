"""The grid is clamped to 65535 programs "for the launch limit" and no program takes a second row: the rest stays unwritten.

Reports: tensorflow/tensorflow#61639, NVIDIA/TensorRT#2021 (row-count limits).
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("unwritten_output",)
SHOWN_BY = ("rows/65536x3", "rows/65537x8")
DTYPES = ("float32",)
BACKENDS = ("cuda",)


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        grid = (min(n_rows, 65535),)
        softmax_kernel[grid](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
