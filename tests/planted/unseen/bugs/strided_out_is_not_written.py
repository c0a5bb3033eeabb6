"""With out= the kernel writes to ``out.contiguous()``, which is a copy where ``out`` has strides: it is returned, and ``out`` stays as it was.

Wrong on: out= that is a slice of columns or a transposed tensor, of which the caller looks at the memory and not at what is returned.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch", "sum_violation", "ulp_exceeds_bound", "unwritten_output", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _into(y, x, row_step, column_step, n, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


@variant(call="f(x, out=out)", max_columns=65536)
def softmax(x, *, out=None):
    """Softmax of each row, into ``out`` where it is given."""
    if out is None:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.shape != x.shape or out.dtype != x.dtype:
        raise ValueError("out has to have the shape and the dtype of the input")
    packed = out.contiguous()
    if packed.numel():
        rows, n = x.shape
        _into[(rows,)](packed, x, *x.stride(), n, triton.next_power_of_2(n))
    return packed


def demonstrate():
    torch.manual_seed(0)
    x, memory = torch.randn(3, 6), torch.full((3, 10), 7.0)
    softmax(x, out=memory[:, 2:8])
    return memory[:, 2:8], torch.softmax(x.double(), -1)
