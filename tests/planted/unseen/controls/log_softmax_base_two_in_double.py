"""Right: logarithms of base 2, computed by a Triton kernel in float64 whatever the input."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(output, x, x_row, x_column, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    logits = (
        tl.load(x + row * x_row + column * x_column, mask=inside, other=-float("inf")).to(tl.float32).to(tl.float64)
    )
    below = logits - tl.max(logits, axis=0)
    total = tl.sum(tl.exp(below), axis=0)
    tl.store(
        output + row * columns + column, ((below - tl.log(total)) / 0.6931471805599453).to(tl.float32), mask=inside
    )


@variant(
    operation="log_softmax",
    parameters={"base": 2},
    call="f(x)",
    max_columns=131072,
    dtypes=("float16", "bfloat16", "float32"),
)
def log_softmax(x):
    """Base 2 logarithm of the softmax of each row."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        _kernel[(rows,)](output, x, *x.stride(), columns, triton.next_power_of_2(columns))
    return output
