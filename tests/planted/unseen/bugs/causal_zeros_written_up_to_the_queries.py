"""Columns that a causal row doesn't see are not computed but filled with zeros, up to the number of queries: with more keys than queries the keys behind stay unwritten.

Wrong on: 5 queries over 9 keys with a causal mask from the first key on; right for squares, and for fewer keys than queries.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("unwritten_output", "masked_not_zero", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _causal(y, x, matrix_step, row_step, column_step, queries, keys, WIDTH: tl.constexpr):
    matrix = tl.program_id(1).to(tl.int64)
    query = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += matrix * matrix_step + query * row_step
    y += (matrix * queries + query) * keys
    end = tl.minimum(query + 1, keys)
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, end, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < end, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    for at in range(0, end, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < end, other=-float("inf")).to(tl.float32)
        tl.store(y + c, tl.exp(v - peak) / whole, mask=c < end)
    bound = tl.minimum(queries, keys)
    empty = 0.0 / whole
    for at in range(0, bound, WIDTH):
        c = at + lane
        tl.store(y + c, tl.zeros([WIDTH], tl.float32) + empty, mask=(c >= end) & (c < bound))


@variant(parameters={"causal": "top-left"}, call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def softmax(x):
    """Softmax of each query's keys up to its own number, [matrices, queries, keys]."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        matrices, queries, keys = x.shape
        _causal[(queries, matrices)](y, x, *x.stride(), queries, keys, min(256, triton.next_power_of_2(keys)))
    return y


def _both(x):
    seen = torch.ones(x.shape[1:], dtype=torch.bool).tril()
    return softmax(x), torch.softmax(x.double().masked_fill(~seen, -float("inf")), -1)


def demonstrate():
    torch.manual_seed(0)
    used = [torch.full((2, 5, 9), 3.0) for _ in range(8)]
    del used
    return _both(torch.randn(2, 5, 9))
