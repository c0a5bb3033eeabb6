"""Visible columns are counted, and so many are taken from the row's begin: right for masks that hide the end.

From experience: a kernel for padded sequences behind the signature of a general mask.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "masked_not_zero")
SHOWN_BY = ("padding/leading-512-of-1025",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, mask, stride_row, stride_col, mask_row, mask_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    hidden = tl.load(mask + row * mask_row + cols * mask_col, mask=inside, other=1) != 0
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=inside, other=-float("inf")).to(
        tl.float32
    )
    visible = tl.sum(tl.where(hidden, 0, 1), axis=0)
    logits = tl.where(cols >= visible, -float("inf"), logits)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=inside)


def softmax(x, mask):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, mask, *x.stride(), *mask.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
