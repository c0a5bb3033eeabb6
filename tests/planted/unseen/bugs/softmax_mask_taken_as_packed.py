"""The mask is read as packed rows, whatever its strides.

Wrong on: a mask that is a slice of a wider one, mask[:, :n], or one row expanded to all (it reads beyond it then); right for packed masks.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(output, x, mask, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    hidden = tl.load(mask + row * columns + column, mask=inside, other=1) != 0
    logits = tl.load(x + row * row_stride + column * column_stride, mask=inside & ~hidden, other=-float("inf")).to(
        tl.float32
    )
    powers = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * columns + column, powers / tl.sum(powers, axis=0), mask=inside)


@variant(call="f(x, mask)", max_columns=131072, dtypes=("float16", "bfloat16", "float32"))
def softmax(x, mask):
    """Softmax of each row without the columns where ``mask`` is True."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        _kernel[(rows,)](output, x, mask.view(torch.uint8), *x.stride(), columns, triton.next_power_of_2(columns))
    return output


def demonstrate():
    torch.manual_seed(0)
    x, mask = torch.randn(4, 20), (torch.rand(4, 32) < 0.4)[:, :20]
    return softmax(x, mask), torch.softmax(x.double().masked_fill(mask, -float("inf")), -1)
