"""The load's mask is ``cols <= n_cols``, and a later ``tl.where`` drops the column too many: values are right.

From experience: the last row's last load lies beyond the tensor, which faults where the tensor ends with its page.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("out_of_bounds_read",)
SHOWN_BY = ("probe/page_ends",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    loaded = tl.load(x + offsets, mask=cols <= n_cols, other=-float("inf")).to(tl.float32)
    logits = tl.where(cols < n_cols, loaded, -float("inf"))
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=cols < n_cols)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
