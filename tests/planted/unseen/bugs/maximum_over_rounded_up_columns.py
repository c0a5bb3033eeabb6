"""The maximum is taken over a row rounded up to whole vectors of four, so it may be an element of the next row.

Wrong on: columns that are no multiple of four where the next row (or what lies behind a slice) begins more than 100 higher, or with NaN or inf.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "out_of_bounds_read", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(output, x, row_stride, columns, rounded, last_row, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    # Whole vectors, except in the last row, behind which memory may end.
    readable = tl.where(row == last_row, columns, rounded)
    logits = tl.load(x + row * row_stride + c, mask=c < readable, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    e = tl.where(c < columns, tl.exp(logits - maximum), 0.0)
    tl.store(output + row * columns + c, e / tl.sum(e, axis=0), mask=c < columns)


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        x = x if x.stride(1) == 1 and x.stride(0) >= columns else x.contiguous()
        rounded = triton.cdiv(columns, 4) * 4
        _kernel[(rows,)](output, x, x.stride(0), columns, rounded, rows - 1, max(4, triton.next_power_of_2(columns)))
    return output


def demonstrate():
    x = torch.randn(4, 30, generator=torch.Generator().manual_seed(0))
    x[2] += 300.0
    return softmax(x), torch.softmax(x.double(), -1)
