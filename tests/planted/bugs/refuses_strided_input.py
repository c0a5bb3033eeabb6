"""Asserts a contiguous input, though its declaration promises strided ones.

From experience: the assertion is honest, the documentation is not.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("raised",)
SHOWN_BY = ("layout/column-slice-129",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    logits = tl.load(x + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768, layouts=("contiguous", "strided"))
def softmax(x):
    assert x.is_contiguous(), "input must be contiguous"
    n_rows, n_cols = x.shape
    out = torch.empty_like(x)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, n_cols, triton.next_power_of_2(n_cols))
    return out
