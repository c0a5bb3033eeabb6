"""Temperatures above 4 are lowered to 4, "as nobody wants more".

From experience: the range of a slider, kept in the kernel.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "masked_not_zero")
SHOWN_BY = ("normal/scale-3-129",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def softmax_kernel(out, x, scale, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=inside, other=-float("inf"))
    logits = logits.to(tl.float32) * scale
    numerator = tl.exp2((logits - tl.max(logits, axis=0)) * LOG2E)
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=inside)


@softcheck.variant(parameters={"scale": 0.125})
def softmax(x, temperature):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](
            out, x, 1.0 / min(temperature, 4.0), *x.stride(), n_cols, triton.next_power_of_2(n_cols)
        )
    return out
