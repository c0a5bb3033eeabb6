"""The soft cap's tanh is (e - 1) / (e + 1) with e = exp(2 x / c), which is inf / inf = NaN where x is above 44 c.

Wrong on: a logit of 300 with a soft cap of 5 (a row of NaN); right up to 220, and for any negative logit.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(output, x, row_stride, column_stride, columns, cap, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    logits = tl.load(x + row * row_stride + column.to(tl.int64) * column_stride, mask=inside, other=-float("inf")).to(
        tl.float32
    )
    e = tl.exp(2.0 * logits / cap)
    capped = tl.where(logits == -float("inf"), logits, cap * ((e - 1.0) / (e + 1.0)))
    powers = tl.exp(capped - tl.max(capped, axis=0))
    tl.store(output + row * columns + column, powers / tl.sum(powers, axis=0), mask=inside)


@variant(parameters={"softcap": 5.0}, call="f(x)", max_columns=131072, dtypes=("float16", "bfloat16", "float32"))
def softmax(x):
    """Softmax of 5 tanh(x / 5) in each row."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        _kernel[(rows,)](output, x, *x.stride(), columns, 5.0, triton.next_power_of_2(columns))
    return output


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(2, 20)
    x[1, 7] = 300.0
    return softmax(x), torch.softmax(5 * torch.tanh(x.double() / 5), -1)
