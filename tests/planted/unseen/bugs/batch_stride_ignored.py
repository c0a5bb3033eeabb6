"""Rows of a three-dimensional input are counted by the second-last stride alone; the first one is ignored.

Wrong on: scores[:, 1:] of a [batch, queries, keys] tensor, or x.expand over the batch; right on contiguous input and on matrices of any strides.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_layout",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(output, x, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    logits = tl.load(x + row * row_stride + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * columns + c, e / tl.sum(e, axis=0), mask=c < columns)


@variant(dimensions=3)
def softmax(x):
    """Softmax over the last dimension of two or three."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        columns = x.shape[-1]
        if x.stride(-1) != 1 and x.dim() == 3:
            x = x.contiguous()
        _kernel[(x.numel() // columns,)](
            output, x, x.stride(-2), x.stride(-1), columns, triton.next_power_of_2(columns)
        )
    return output


def demonstrate():
    x = torch.randn(3, 5, 20, generator=torch.Generator().manual_seed(0))[:, 1:4]
    # One row more than is sure to lie in memory is never read: rows 0 to 8 of stride 20 from the start of 300 numbers.
    return softmax(x), torch.softmax(x.double(), -1)
