"""Peels elements up to an aligned address, but as many as the address is past alignment rather than those still missing.

Wrong on: contiguous views that begin one or three elements past a vector of four, such as buffer[1:1 + n].view(rows, columns).
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(output, x, row_stride, column_stride, columns, head, body, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * row_stride
    c = tl.arange(0, BLOCK).to(tl.int64)
    logits = tl.load(x + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    e = tl.exp(logits - maximum)
    # Scalars of the head first, then vectors from the aligned address on.
    total = tl.sum(tl.where(c < head, e, 0.0), axis=0) + tl.sum(tl.where(c >= body, e, 0.0), axis=0)
    tl.store(output + row * columns + c, e / total, mask=c < columns)


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        head = body = 0
        if x.is_contiguous() and columns >= 8:
            past = x.data_ptr() // x.element_size() % 4
            head, body = past, (4 - past) % 4
        _kernel[(rows,)](output, x, *x.stride(), columns, head, body, triton.next_power_of_2(columns))
    return output


def demonstrate():
    x = torch.randn(65, generator=torch.Generator().manual_seed(0))[1:].view(4, 16)
    return softmax(x), torch.softmax(x.double(), -1)
