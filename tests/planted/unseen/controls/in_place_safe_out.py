"""RIGHT: takes out=, which may be the input itself, a slice or a transposed tensor; the row is held in one block until it is stored.

Unusual in: the output's strides are free, and only the row's own elements are written.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(output, x, out_row_stride, out_column_stride, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    logits = tl.load(x + row * row_stride + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * out_row_stride + c * out_column_stride, e / tl.sum(e, axis=0), mask=c < columns)


@softcheck.variant(call="f(x, out=out)", max_columns=32768)
def softmax(x, *, out=None):
    """Softmax of each row, shape [rows, columns], into ``out`` where it is given."""
    if out is None:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.shape != x.shape or out.dtype != x.dtype:
        raise ValueError("out has to have the shape and the dtype of the input")
    if out.numel():
        rows, columns = x.shape
        _kernel[(rows,)](out, x, *out.stride(), *x.stride(), columns, triton.next_power_of_2(columns))
    return out
