"""The number of a query is its row modulo the number of keys instead of queries: right for square matrices, and for the first matrix.

Wrong on: two matrices of 5 queries and 9 keys with a causal mask (top-left).
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("masked_not_zero", "order_violation", "sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(output, x, matrix_stride, row_stride, column_stride, queries, keys, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    last = row % keys
    column = tl.arange(0, BLOCK).to(tl.int64)
    pointers = x + (row // queries) * matrix_stride + (row % queries) * row_stride + column * column_stride
    seen = (column < keys) & (column <= last)
    logits = tl.load(pointers, mask=seen, other=-float("inf")).to(tl.float32)
    powers = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * keys + column, powers / tl.sum(powers, axis=0), mask=column < keys)


@variant(parameters={"causal": "top-left"}, call="f(x)", max_columns=131072, dtypes=("float16", "bfloat16", "float32"))
def softmax(x):
    """Softmax of each query's keys up to its own number, [matrices, queries, keys]."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        matrices, queries, keys = x.shape
        _kernel[(matrices * queries,)](output, x, *x.stride(), queries, keys, triton.next_power_of_2(keys))
    return output


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 9)
    return softmax(x), torch.softmax(
        x.double().masked_fill(~torch.ones(5, 9, dtype=torch.bool).tril(), -float("inf")), -1
    )
