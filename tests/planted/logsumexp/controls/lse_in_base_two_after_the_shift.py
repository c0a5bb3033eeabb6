"""exp2 and log2 with constants of full precision, behind the shift, and ln 2 at the logarithm alone."""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ()
SHOWN_BY = ()
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
    total = tl.sum(tl.exp2((logits - shift) * 1.4426950408889634), axis=0)
    tl.store(out + row, shift + tl.log2(total) * 0.6931471805599453)


@softcheck.variant(operation="logsumexp")
def logsumexp(x):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if x.numel():
        logsumexp_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
