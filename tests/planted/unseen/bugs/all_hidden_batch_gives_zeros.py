"""Where the mask hides every column of every row nothing is launched and zeros are returned; a single hidden row is NaN, as torch's.

Wrong on: a batch (or the last micro-batch) of padding alone. With one visible column anywhere, hidden rows are NaN as they should be.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _masked(y, x, mask, row_step, column_step, mask_row, mask_column, n, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    hidden = tl.load(mask + r * mask_row + c * mask_column, mask=c < n, other=1)
    v = tl.load(x + r * row_step + c * column_step, mask=(c < n) & (hidden == 0), other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


@variant(call="f(x, mask)", max_columns=65536, dtypes=("float16", "bfloat16", "float32"))
def softmax(x, mask):
    """Softmax of each row without the columns where ``mask`` is True."""
    capturing = x.is_cuda and torch.cuda.is_current_stream_capturing()
    if not capturing and bool(mask.all()):
        return torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        strides = (*x.stride(), *mask.stride())
        _masked[(rows,)](y, x, mask.view(torch.int8), *strides, n, triton.next_power_of_2(n))
    return y


def demonstrate():
    torch.manual_seed(0)
    x, mask = torch.randn(2, 9), torch.ones(2, 9, dtype=torch.bool)
    return softmax(x, mask), torch.softmax(x.double().masked_fill(mask, -float("inf")), -1)


def ordinary(dtype):
    x, mask = torch.randn(4, 33, dtype=torch.float64).to(dtype), torch.rand(4, 33) < 0.3
    return softmax(x, mask), torch.softmax(x.double().masked_fill(mask, -float("inf")), -1)
