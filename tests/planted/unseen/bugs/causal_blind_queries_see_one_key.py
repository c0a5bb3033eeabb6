"""A causal row is as long as the keys that its query sees, and at least 1 so that no row is empty; a query that sees none has the first key instead.

Wrong on: a causal mask that ends at the last key with more queries than keys, in the queries before the first key. Others are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("masked_not_zero", "ulp_exceeds_bound", "nan_mismatch", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _causal(y, x, matrix_step, row_step, column_step, queries, keys, WIDTH: tl.constexpr):
    place = tl.program_id(0).to(tl.int64)
    query = place % queries
    x += place // queries * matrix_step + query * row_step
    seen = tl.minimum(tl.maximum(query + 1 + keys - queries, 1), keys)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, seen, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < seen, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    for at in range(0, keys, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < seen, other=-float("inf")).to(tl.float32)
        p = tl.where(whole == 0.0, 0.0, tl.where(c >= seen, 0.0, tl.exp(v - peak) / whole))
        tl.store(y + place * keys + c, p, mask=c < keys)


@variant(
    parameters={"causal": "bottom-right"}, call="f(x)", fully_masked="zero", dtypes=("float16", "bfloat16", "float32")
)
def softmax(x):
    """Softmax of each query's keys, [matrices, queries, keys], the last query beside the last key; 0 where it sees none."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        matrices, queries, keys = x.shape
        width = min(512, triton.next_power_of_2(keys))
        _causal[(matrices * queries,)](y, x, *x.stride(), queries, keys, width)
    return y


def _plain(x):
    queries, keys = x.shape[1:]
    hidden = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1)
    return torch.softmax(x.double().masked_fill(hidden, -float("inf")), -1).nan_to_num(0.0)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(1, 9, 5)
    return softmax(x), _plain(x)


def ordinary(dtype):
    x = torch.randn(2, 9, 33).to(dtype)
    return softmax(x), _plain(x)
