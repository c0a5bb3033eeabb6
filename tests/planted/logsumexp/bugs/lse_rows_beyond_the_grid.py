"""Four rows go to a program, and the rows that are left over to none: the last ones stay unwritten.

From experience: batches were multiples of 4.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("unwritten_output",)
SHOWN_BY = ("widths/129",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def logsumexp_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    for row_of_four in range(4):
        one_row(out, x, tl.program_id(0).to(tl.int64) * 4 + row_of_four, stride_row, stride_col, n_cols, BLOCK)


@triton.jit
def one_row(out, x, row, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=inside, other=-float("inf")).to(
        tl.float32
    )
    maximum = tl.max(logits, axis=0)
    shift = tl.where(maximum == -float("inf"), 0.0, maximum)
    total = tl.sum(tl.exp(logits - shift), axis=0)
    tl.store(out + row, shift + tl.log(total))


@softcheck.variant(operation="logsumexp")
def logsumexp(x):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if x.numel() and n_rows >= 4:
        logsumexp_kernel[(n_rows // 4,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
