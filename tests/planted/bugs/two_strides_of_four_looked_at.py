"""Dimensions are taken for one where the last ones fit together, and the first of four is not looked at.

From experience: some heads of a tensor of all heads are passed on.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_layout",)
SHOWN_BY = ("probe/meetings",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def kernel(out, x, s0, s1, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * columns + c, e / tl.sum(e, axis=0), mask=c < columns)


def collapses(x):
    return x.dim() < 3 or x.stride(-3) == x.stride(-2) * x.shape[-2]


@variant(operation="softmax", dimensions=4)
def softmax(x):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    if not collapses(x):
        x = x.contiguous()
    columns = x.shape[-1]
    rows = out.numel() // columns
    kernel[(rows,)](out, x, x.stride(-2), x.stride(-1), columns, triton.next_power_of_2(columns))
    return out
