"""The maximum is taken over float bits as integers, for atomics; -0.0 passes x >= 0 and its bits are the least integer.

Wrong on: additive masks such as (1 - keep) * -10000.0, whose kept places are -0.0: NaN or zeros where nothing larger is in the row.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(output, x, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    logits = tl.load(x + row * row_stride + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
    bits = logits.to(tl.int32, bitcast=True)
    # Bits of numbers from 0 on rise with them, bits of negative numbers fall.
    positive = tl.max(tl.where(logits >= 0, bits, -1), axis=0)
    negative = tl.min(tl.where(logits < 0, bits, 0x7FFFFFFF), axis=0)
    maximum = tl.where(positive >= 0, positive, negative).to(tl.float32, bitcast=True)
    e = tl.exp(logits - maximum)
    tl.store(output + row * columns + c, e / tl.sum(e, axis=0), mask=c < columns)


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        _kernel[(rows,)](output, x, *x.stride(), columns, triton.next_power_of_2(columns))
    return output


def demonstrate():
    keep = (torch.arange(12) < torch.tensor([[5], [12]])).float()
    x = (1 - keep) * -10000.0
    return softmax(x), torch.softmax(x.double(), -1)
