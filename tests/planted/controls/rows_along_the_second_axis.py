"""Tiles hold one row in each column and are reduced along their first axis; a loop's variable and a scale are arguments.

On a GPU exp2 is ex2.approx.ftz, which it declares.
"""

import torch
import triton
import triton.language as tl
from triton.language import exp2

from softcheck import Arithmetic, variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_rows, n_cols, log2_e, COLS: tl.constexpr, ROWS: tl.constexpr):
    cols = tl.arange(0, COLS)[:, None]
    for first in range(tl.program_id(0) * ROWS, n_rows, tl.num_programs(0) * ROWS):
        rows = first.to(tl.int64) + tl.arange(0, ROWS)[None, :]
        inside = (rows < n_rows) & (cols < n_cols)
        values = tl.load(x + rows * stride_row + cols.to(tl.int64) * stride_col, mask=inside, other=-float("inf"))
        values = values.to(tl.float32)
        numerator = exp2((values - tl.max(values, axis=0)[None, :]) * log2_e)
        tl.store(out + rows * n_cols + cols, numerator / tl.sum(numerator, axis=0)[None, :], mask=inside)


@variant(arithmetic=Arithmetic(flush_to_zero=True))
def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        programs = min(triton.cdiv(n_rows, 4), 4)
        block = triton.next_power_of_2(n_cols)
        softmax_kernel[(programs,)](out, x, *x.stride(), n_rows, n_cols, 1.4426950408889634, block, 4)
    return out
