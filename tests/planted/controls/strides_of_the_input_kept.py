"""Gives the output the input's strides, as torch's elementwise operations do, and stores through them."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, out_row, out_col, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    offsets = row * out_row + cols.to(tl.int64) * out_col
    tl.store(out + offsets, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty_like(x)
    if out.numel():
        block = triton.next_power_of_2(n_cols)
        softmax_kernel[(n_rows,)](out, *out.stride(), x, *x.stride(), n_cols, block)
    return out
