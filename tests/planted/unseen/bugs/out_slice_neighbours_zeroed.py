"""With out= the rows are stored in whole vectors of eight, so zeros land behind each row of a sliced output.

Wrong on: out= a column slice of a wider tensor with columns no multiple of eight: its neighbours become 0.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch", "out_of_bounds_write")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(output, x, out_stride, row_stride, column_stride, columns, stored, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    logits = tl.load(x + row * row_stride + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * out_stride + c, e / tl.sum(e, axis=0), mask=c < stored)


@variant(call="f(x, out=out)")
def softmax(x, out=None):
    """Softmax of each row, shape [rows, columns], into ``out`` where it is given."""
    rows, columns = x.shape
    stored = triton.cdiv(columns, 8) * 8
    if out is None:
        # Rows of whole vectors.
        out = torch.empty(rows, stored, dtype=x.dtype, device=x.device)[:, :columns]
    elif out.stride(1) != 1 or out.stride(0) < stored:
        return out.copy_(softmax(x))
    if out.numel():
        _kernel[(rows,)](out, x, out.stride(0), *x.stride(), columns, stored, max(8, triton.next_power_of_2(columns)))
    return out


def demonstrate():
    x = torch.randn(3, 13, generator=torch.Generator().manual_seed(0))
    held = torch.full((3, 32), 7.0)
    softmax(x, out=held[:, 4:17])
    expected = torch.full((3, 32), 7.0, dtype=torch.float64)
    expected[:, 4:17] = torch.softmax(x.double(), -1)
    return held, expected
