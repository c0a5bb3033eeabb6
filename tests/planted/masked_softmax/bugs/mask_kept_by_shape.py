"""The additive form of a mask is kept by shape and device: the second mask of a shape is the first one.

From experience: masks are rebuilt for each layer, and a cache seemed free.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nondeterministic", "ulp_exceeds_bound", "sum_violation", "nan_mismatch", "masked_not_zero")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
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
    logits = tl.where(hidden, -float("inf"), logits)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=inside)


_masks = {}


def softmax(x, mask):
    n_rows, n_cols = x.shape
    mask = _masks.setdefault((mask.shape, mask.device), mask.clone())
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, mask, *x.stride(), *mask.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
