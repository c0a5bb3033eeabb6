"""If all but the peak sum to less than 1e-4, the peak is the answer: off by up to 1e-4.

From experience: a shortcut for sharp rows, whose peak is large as a rule and here near 0.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "inf_mismatch", "out_of_range")
SHOWN_BY = ("normal/scale-30-513",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def logsumexp_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=inside, other=-float("inf")).to(
        tl.float32
    )
    maximum = tl.max(logits, axis=0)
    shift = tl.where(maximum == -float("inf"), 0.0, maximum)
    total = tl.sum(tl.exp(logits - shift), axis=0)
    tl.store(out + row, shift + tl.where(total < 1.0001, 0.0, tl.log(total)))


@softcheck.variant(operation="logsumexp")
def logsumexp(x):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if x.numel():
        logsumexp_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
