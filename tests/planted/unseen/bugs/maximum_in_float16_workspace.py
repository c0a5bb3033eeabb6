"""Row maxima pass between two kernels in a float16 workspace; shift invariance hides it up to 65504.

Wrong on: bfloat16 or float32 rows whose maximum lies beyond +-65520 (finfo.min fills in a whole row, logits of 1e5).
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _maximum_kernel(maxima, x, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    logits = tl.load(x + row * row_stride + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
    tl.store(maxima + row, tl.max(logits, axis=0))


@triton.jit
def _softmax_kernel(output, maxima, x, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    logits = tl.load(x + row * row_stride + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(logits - tl.load(maxima + row).to(tl.float32))
    tl.store(output + row * columns + c, e / tl.sum(e, axis=0), mask=c < columns)


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        # Any shift near the maximum will do, so 16 bits are enough.
        maxima = torch.empty(rows, dtype=torch.float16, device=x.device)
        _maximum_kernel[(rows,)](maxima, x, *x.stride(), columns, triton.next_power_of_2(columns))
        _softmax_kernel[(rows,)](output, maxima, x, *x.stride(), columns, triton.next_power_of_2(columns))
    return output


def demonstrate():
    x = torch.randn(2, 20, generator=torch.Generator().manual_seed(0)) + 70000
    return softmax(x), torch.softmax(x.double(), -1)
