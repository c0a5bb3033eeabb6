"""log_softmax: log1p of the sum without the maximum, where every element equal to the maximum is left out.

Wrong on: rows in which the maximum occurs twice (uniform rows, wide 16-bit rows); right where it is unique.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(others, below_all, x, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    inside = c < columns
    logits = tl.load(x + row * row_stride + c * column_stride, mask=inside, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    below = logits - maximum
    tl.store(below_all + row * columns + c, below, mask=inside)
    # The maximum's own exponential is the 1 of log1p. Lanes beyond the row add nothing.
    tl.store(others + row, tl.sum(tl.where(inside & (below != 0.0), tl.exp(below), 0.0), axis=0))


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    """Log-softmax of each row, shape [rows, columns]."""
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rows, columns = x.shape
    below = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    others = torch.empty(rows, 1, dtype=torch.float32, device=x.device)
    _kernel[(rows,)](others, below, x, *x.stride(), columns, triton.next_power_of_2(columns))
    return (below - torch.log1p(others)).to(x.dtype)


def demonstrate():
    x = torch.zeros(1, 16)
    return log_softmax(x), torch.log_softmax(x.double(), -1)
