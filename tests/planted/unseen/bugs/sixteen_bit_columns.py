"""Column numbers are kept in unsigned 16 bits, as in a compact index table, and wrap at 65536.

Wrong on: more than 65536 columns: the first ones are counted twice and the last ones are never written.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "unwritten_output")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_TILE = 4096


@triton.jit
def _kernel(output, x, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * row_stride
    lane = tl.arange(0, BLOCK)
    largest = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        c = (start + lane).to(tl.uint16).to(tl.int64)
        largest = tl.maximum(
            largest, tl.load(x + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
        )
    maximum = tl.max(largest, axis=0)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        c = (start + lane).to(tl.uint16).to(tl.int64)
        sums += tl.exp(tl.load(x + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32) - maximum)
    total = tl.sum(sums, axis=0)
    for start in range(0, columns, BLOCK):
        c = (start + lane).to(tl.uint16).to(tl.int64)
        logits = tl.load(x + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
        tl.store(output + row * columns + c, tl.exp(logits - maximum) / total, mask=c < columns)


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        _kernel[(rows,)](output, x, *x.stride(), columns, _TILE)
    return output


def demonstrate():
    x = torch.randn(1, 70000, generator=torch.Generator().manual_seed(0))
    return softmax(x)[:, :65536], torch.softmax(x.double(), -1)[:, :65536]
