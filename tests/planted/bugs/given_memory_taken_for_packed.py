"""Memory that is given as out= is written as if its rows followed each other.

From experience: a part of a wider buffer is passed as out=.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "order_violation")
SHOWN_BY = ("probe/operand_layouts",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def kernel(out, x, o0, o1, s0, s1, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    v = tl.load(x + row * s0 + c * s1, mask=c < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * o0 + c * o1, e / tl.sum(e, axis=0), mask=c < columns)


@variant(operation="softmax", max_columns=65536)
def softmax(x, *, out=None):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device) if out is None else out
    if x.numel():
        kernel[(x.shape[0],)](y, x, x.shape[1], 1, *x.stride(), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y
