"""The exponentials are summed in the 16-bit input type.

Reports: triton-lang/triton#6974, pytorch/pytorch#141052 (``tl.sum`` does not promote 16-bit operands), jax-ml/jax#40474.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation",)
SHOWN_BY = ("normal/scale-1-8192", "ramp/fine-1023")
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    maximum = -float("inf")
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf"))
        maximum = tl.maximum(maximum, tl.max(tile.to(tl.float32), axis=0))
    total = tl.zeros([], out.dtype.element_ty)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf"))
        numerator = tl.exp(tile.to(tl.float32) - maximum).to(out.dtype.element_ty)
        total = (total + tl.sum(numerator, axis=0)).to(out.dtype.element_ty)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf"))
        result = tl.exp(tile.to(tl.float32) - maximum) / total.to(tl.float32)
        tl.store(out + row * n_cols + cols, result, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 64)
    return out
