"""The scale is folded into log2(e) with five digits, 1.4427 for 1.44269504: exponents are off by 3.4e-6 of their distance from the maximum.

Wrong on: float32 logits that lie 100 below the maximum after scaling, by 3.4e-4; for randn it is a few 1e-6.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant
from softcheck.operations.arithmetic import Arithmetic

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_SCALE = 0.125


@triton.jit
def _kernel(output, x, row_stride, column_stride, columns, scale_log2, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    logits = tl.load(x + row * row_stride + column.to(tl.int64) * column_stride, mask=inside, other=-float("inf")).to(
        tl.float32
    )
    powers = tl.exp2((logits - tl.max(logits, axis=0)) * scale_log2)
    tl.store(output + row * columns + column, powers / tl.sum(powers, axis=0), mask=inside)


@variant(
    parameters={"scale": _SCALE},
    call="f(x)",
    max_columns=131072,
    dtypes=("float16", "bfloat16", "float32"),
    arithmetic=Arithmetic(flush_to_zero=True, scaled_logits=True),
)
def softmax(x):
    """Softmax of x / 8 in each row."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        _kernel[(rows,)](output, x, *x.stride(), columns, _SCALE * 1.4427, triton.next_power_of_2(columns))
    return output


def demonstrate():
    x = torch.tensor([[0.0, -400.0, -550.0, 3.0]])
    exact = torch.softmax(x.double() * _SCALE, -1)
    return softmax(x).double() / exact, torch.ones(1, 4)
