"""A single query is taken for a decoding step and gets no causal mask, which is right where the last query sees the last key, not from the first key on.

Wrong on: one query over several keys with a mask aligned to the first key, as torch's ``is_causal`` has it: it sees key 0 alone.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("masked_not_zero", "sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _causal(y, x, matrix_step, row_step, column_step, queries, keys, CAUSAL: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    query = r % queries
    c = tl.arange(0, BLOCK).to(tl.int64)
    seen = c < keys
    if CAUSAL:
        seen &= c <= query
    at = x + (r // queries) * matrix_step + query * row_step + c * column_step
    v = tl.load(at, mask=seen, other=-float("inf")).to(tl.float32)
    peak = tl.max(v, 0)
    e = tl.exp(v - tl.where(peak == -float("inf"), 0.0, peak))
    whole = tl.sum(e, 0)
    tl.store(y + r * keys + c, tl.where(whole == 0.0, 0.0, e / whole), mask=c < keys)


@variant(
    parameters={"causal": "top-left"},
    call="f(x)",
    fully_masked="zero",
    max_columns=65536,
    dtypes=("float16", "bfloat16", "float32"),
)
def softmax(x):
    """Softmax of each query's keys up to its own number, shape [matrices, queries, keys]."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        matrices, queries, keys = x.shape
        # A lone query is a step of decoding: it sees all that is in the cache.
        block = triton.next_power_of_2(keys)
        _causal[(matrices * queries,)](y, x, *x.stride(), queries, keys, queries > 1, block)
    return y


def ordinary(dtype):
    x = torch.randn(2, 9, 33, dtype=torch.float64).to(dtype)
    seen = torch.ones(9, 33, dtype=torch.bool).tril()
    return softmax(x), torch.softmax(x.double().masked_fill(~seen, -float("inf")), -1)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(2, 1, 12)
    expected = torch.zeros(2, 1, 12, dtype=torch.float64)
    expected[..., 0] = 1.0
    return softmax(x), expected
