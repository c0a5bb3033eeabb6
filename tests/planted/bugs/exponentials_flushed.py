"""float32 through tl.exp2, which compiles to ex2.approx.ftz: every result below 2^-126 is 0.

From experience; tl.exp compiles to the instruction that keeps subnormal numbers.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("subnormal-results/ramp-129",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=mask, other=-float("inf"))
    powers = tl.exp2((logits - tl.max(logits, axis=0)) * 1.4426950408889634)
    tl.store(out + row * n_cols + cols, powers / tl.sum(powers, axis=0), mask=mask)


@variant(dtypes=("float32",), max_columns=32768)
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
