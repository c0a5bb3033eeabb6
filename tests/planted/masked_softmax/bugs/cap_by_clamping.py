"""Logits are clamped to the cap, "which is nearly tanh".

From experience: a kernel language without a hyperbolic tangent.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "inf_mismatch", "masked_not_zero", "sum_violation")
SHOWN_BY = ("normal/scale-3-129",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, cap, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(
        tl.float32
    )
    logits = tl.where(logits == -float("inf"), logits, tl.minimum(tl.maximum(logits, -cap), cap))
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=cols < n_cols)


@softcheck.variant(parameters={"softcap": 5.0})
def softmax(x, softcap):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, softcap, triton.next_power_of_2(n_cols))
    return out
