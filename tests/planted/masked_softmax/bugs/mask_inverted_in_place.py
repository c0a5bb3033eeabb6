"""The caller's mask is inverted in place, for a kernel that wants what is kept: the second call with it hides the rest.

From experience: ``logical_not_`` saves an allocation.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("input_modified",)
SHOWN_BY = ("normal/scale-3-129",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, mask, stride_row, stride_col, mask_row, mask_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    mask += row * mask_row
    maximum = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        hidden = tl.load(mask + cols * mask_col, mask=cols < n_cols, other=0) == 0
        logits = tl.load(x + cols.to(tl.int64) * stride_col, mask=(cols < n_cols) & (hidden == 0), other=-float("inf"))
        logits = logits.to(tl.float32)
        larger = tl.maximum(maximum, tl.max(logits, axis=0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(logits - shift), axis=0)
        maximum = larger
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        hidden = tl.load(mask + cols * mask_col, mask=cols < n_cols, other=0) == 0
        logits = tl.load(x + cols.to(tl.int64) * stride_col, mask=(cols < n_cols) & (hidden == 0), other=-float("inf"))
        tl.store(out + row * n_cols + cols, tl.exp(logits.to(tl.float32) - maximum) / total, mask=cols < n_cols)


def softmax(x, mask):
    n_rows, n_cols = x.shape
    mask.logical_not_()
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, mask, *x.stride(), *mask.stride(), n_cols, 64)
    return out
