"""Writes the result over the input and returns it.

Reports: NVIDIA/apex#1430, NVIDIA/apex#1587 (the caller's tensor clobbered).
"""

import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("input_modified",)
SHOWN_BY = ("widths/129",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    pointers = x + row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(pointers, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(pointers, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    if x.numel():
        softmax_kernel[(n_rows,)](x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return x
