"""Works in place on ``x.contiguous()``, which is no copy where ``x`` is contiguous already.

From experience: the guard against writing to the input holds for strided inputs alone.
"""

import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("input_modified",)
SHOWN_BY = ("widths/129",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(x, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    pointers = x + row * n_cols + cols
    logits = tl.load(pointers, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(pointers, numerator / tl.sum(numerator, axis=0), mask=mask)


@variant(max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    result = x.contiguous()
    if x.numel():
        softmax_kernel[(n_rows,)](result, n_cols, triton.next_power_of_2(n_cols))
    return result
