"""Rows are padded with -inf behind their length, so the length is taken as the number of columns above -inf, and what lies behind it is not read.

Wrong on: a row with -inf in front or in the middle (hidden words); right for rows that are padded at their end, and without -inf.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(output, x, lengths, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row)
    lane = tl.arange(0, BLOCK)
    maximum = tl.full([], -float("inf"), tl.float32)
    total = tl.zeros([], tl.float32)
    for start in range(0, length, BLOCK):
        column = start + lane
        logits = tl.load(
            x + row * row_stride + column.to(tl.int64) * column_stride, mask=column < length, other=-float("inf")
        ).to(tl.float32)
        larger = tl.maximum(maximum, tl.max(logits, axis=0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(logits - shift), axis=0)
        maximum = larger
    tl.store(output + row, maximum + tl.log(total))


@variant(operation="logsumexp", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """Log-sum-exp of each row."""
    output = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    if x.numel():
        rows, columns = x.shape
        lengths = (x != -float("inf")).sum(-1, dtype=torch.int32)
        _kernel[(rows,)](output, x, lengths, *x.stride(), columns, 1024)
    return output


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(2, 20)
    x[1, :4] = -float("inf")
    return logsumexp(x), torch.logsumexp(x.double(), -1)
