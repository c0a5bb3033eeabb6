"""RIGHT: base 2 throughout; the difference to the maximum times log2(e), then exp2.

Unusual in: tl.exp2, which flushes subnormals on a GPU (declared).
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _kernel(output, x, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    logits = tl.load(x + row * row_stride + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp2((logits - tl.max(logits, axis=0)) * _LOG2_E)
    tl.store(output + row * columns + c, e / tl.sum(e, axis=0), mask=c < columns)


@softcheck.variant(max_columns=32768, arithmetic=softcheck.Arithmetic(flush_to_zero=True))
def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        _kernel[(rows,)](output, x, *x.stride(), columns, triton.next_power_of_2(columns))
    return output
