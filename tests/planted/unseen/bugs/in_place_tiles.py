"""One program for each tile of columns, each of which reads the whole row: in place, the second reads what the first wrote.

Wrong on: softmax(x, out=x) with more than 256 columns; right with an output of its own.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("timeout",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_TILE = 256


@triton.jit
def _kernel(
    output,
    x,
    out_row_stride,
    out_column_stride,
    row_stride,
    column_stride,
    columns,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    x += row * row_stride
    c = tl.arange(0, BLOCK).to(tl.int64)
    logits = tl.load(x + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    total = tl.sum(tl.exp(logits - maximum), axis=0)
    mine = (tl.program_id(1) * TILE + tl.arange(0, TILE)).to(tl.int64)
    logits = tl.load(x + mine * column_stride, mask=mine < columns, other=-float("inf")).to(tl.float32)
    tl.store(
        output + row * out_row_stride + mine * out_column_stride, tl.exp(logits - maximum) / total, mask=mine < columns
    )


@variant(call="f(x, out=out)")
def softmax(x, *, out=None):
    """Softmax of each row, shape [rows, columns], into ``out``, which may be ``x``."""
    if out is None:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        rows, columns = x.shape
        grid = (rows, triton.cdiv(columns, _TILE))
        _kernel[grid](out, x, *out.stride(), *x.stride(), columns, triton.next_power_of_2(columns), _TILE)
    return out


def demonstrate():
    x = torch.randn(2, 600, generator=torch.Generator().manual_seed(0))
    expected = torch.softmax(x.double(), -1)
    return softmax(x, out=x), expected
