"""Right: a scale and a boolean mask of any strides; powers of two of differences times log2(e)."""

import torch
import triton
import triton.language as tl

from softcheck import variant
from softcheck.operations.arithmetic import Arithmetic

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _kernel(output, x, mask, x_row, x_column, mask_row, mask_column, columns, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    hidden = tl.load(mask + row * mask_row + column * mask_column, mask=inside, other=1)
    logits = (
        tl.load(x + row * x_row + column * x_column, mask=inside & (hidden == 0), other=-float("inf")).to(tl.float32)
        * scale
    )
    powers = tl.exp2((logits - tl.max(logits, axis=0)) * _LOG2_E)
    tl.store(output + row * columns + column, powers / tl.sum(powers, axis=0), mask=inside)


@variant(
    parameters={"scale": 0.25},
    call="f(x, mask, scale)",
    max_columns=131072,
    arithmetic=Arithmetic(scaled_logits=True, flush_to_zero=True),
    dtypes=("float16", "bfloat16", "float32"),
)
def softmax(x, mask, scale):
    """Softmax of ``scale * x`` in each row without the columns where ``mask`` is True."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        _kernel[(rows,)](
            output,
            x,
            mask.view(torch.uint8),
            *x.stride(),
            *mask.stride(),
            columns,
            scale,
            triton.next_power_of_2(columns),
        )
    return output
