"""Logits and bias are widened, added and shifted, and the difference is brought to base 2 as one.

On a GPU exp2 is ex2.approx.ftz, which it declares.
"""

import torch
import triton
import triton.language as tl

from softcheck import Arithmetic, variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, bias, stride_row, stride_col, bias_row, bias_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=inside, other=-float("inf")).to(
        tl.float32
    )
    logits += tl.load(bias + row * bias_row + cols * bias_col, mask=inside, other=0.0).to(tl.float32)
    numerator = tl.exp2((logits - tl.max(logits, axis=0)) * 1.4426950408889634)
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=inside)


@variant(arithmetic=Arithmetic(flush_to_zero=True))
def softmax(x, bias):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, bias, *x.stride(), *bias.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
