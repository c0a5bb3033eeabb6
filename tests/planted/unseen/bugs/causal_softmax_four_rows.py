"""The queries of four rows are counted on from that of the first, also where a program takes rows of two matrices.

Wrong on: causal scores of [2, 50, 50]: rows 0 and 1 of the second matrix see columns that they should not. Right for
one matrix, and for numbers of queries that are a multiple of 4, such as 128 or 1000.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "masked_not_zero", "sum_violation", "row_dependence", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _softmax(x_ptr, out_ptr, rows, n_queries, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * ROWS
    row = first + tl.arange(0, ROWS)
    query = first % n_queries + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (cols[None, :] < n_cols)
    at = row[:, None].to(tl.int64) * n_cols + cols[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=-float("inf")).to(tl.float32)
    x = tl.where(cols[None, :] <= query[:, None], x, -float("inf"))
    m = tl.max(x, 1)
    e = tl.exp(x - m[:, None])
    tl.store(out_ptr + at, e / tl.sum(e, 1)[:, None], mask=inside)


@variant(parameters={"causal": "top-left"}, call="f(x3)")
def softmax(scores):
    scores = scores.contiguous()
    out = torch.empty_like(scores)
    if out.numel():
        n_queries, n_cols = scores.shape[-2:]
        rows = scores.numel() // n_cols
        _softmax[(triton.cdiv(rows, 4),)](
            scores, out, rows, n_queries, n_cols, ROWS=4, BLOCK=triton.next_power_of_2(n_cols)
        )
    return out


def _both(scores):
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return softmax(scores), torch.softmax(scores.double().masked_fill(hidden, -float("inf")), -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(2, 50, 50))


def ordinary(dtype):
    for shape in ((1, 50, 50), (3, 128, 128), (2, 12, 40), (2, 40, 12), (1, 1, 1)):
        yield f"{shape}", _both(torch.randn(shape).to(dtype))
