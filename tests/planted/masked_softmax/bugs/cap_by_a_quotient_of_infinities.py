"""tanh is (e^2t - 1) / (e^2t + 1), which is infinity by infinity for a logit 45 times the cap.

From experience: the formula of a textbook.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "inf_mismatch", "masked_not_zero", "sum_violation")
SHOWN_BY = ("huge/mixed-signs-129", "normal/scale-100-1025")
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, cap, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(
        tl.float32
    )
    power = tl.exp(2 * logits / cap)
    logits = tl.where(logits == -float("inf"), logits, cap * (power - 1) / (power + 1))
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=cols < n_cols)


@softcheck.variant(parameters={"softcap": 5.0})
def softmax(x, softcap):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, softcap, triton.next_power_of_2(n_cols))
    return out
