"""The answers are written into a buffer that is kept by row count: the next call overwrites what the last one returned.

From experience: a statistic "of a few bytes", kept by the module.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("output_reused", "nondeterministic")
SHOWN_BY = ("probe/histories",)
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
    tl.store(out + row, shift + tl.log(total))


_kept = {}


@softcheck.variant(operation="logsumexp")
def logsumexp(x):
    n_rows, n_cols = x.shape
    out = _kept.setdefault((n_rows, x.device), torch.empty(n_rows, dtype=torch.float32, device=x.device))
    if x.numel():
        logsumexp_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
