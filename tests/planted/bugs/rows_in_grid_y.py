"""Rows are the grid's second dimension, which ends at 65535: from 65536 rows on the launch is refused.

Reports: NVIDIA/TensorRT#2021, fla-org/flash-linear-attention#172, vllm-project/vllm#52381.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("raised",)
SHOWN_BY = ("rows/65536x3",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
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
        softmax_kernel[(1, n_rows)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
