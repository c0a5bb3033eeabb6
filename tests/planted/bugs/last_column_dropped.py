"""The mask is ``cols < n_cols - 1``: the last column is neither summed nor stored.

From experience: the mask of an inclusive upper index, used with an exclusive one.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("unwritten_output",)
SHOWN_BY = ("widths/129",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, last, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < last
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols - 1, n_cols, triton.next_power_of_2(n_cols))
    return out
