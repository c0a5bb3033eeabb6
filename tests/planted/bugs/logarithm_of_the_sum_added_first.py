"""exp(x - (max + log(sum))): with large logits the logarithm is lost in the addition.

Reports: pytorch/pytorch#11752, ml-explore/mlx#4169 (equal logits of 1e8).
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("sum_violation",)
SHOWN_BY = ("huge/equal-1e8-33", "shifted/same-row-9")
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    log_sum = maximum + tl.log(tl.sum(tl.exp(logits - maximum), axis=0))
    tl.store(out + row * n_cols + cols, tl.exp(logits - log_sum), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
