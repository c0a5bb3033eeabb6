"""A gradient that nobody else seems to hold, by its reference count, is overwritten with the answer; a view's base is held by others.

From experience: autograd reuses gradients in this way, and looks at the base.
"""

import sys

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("input_modified",)
SHOWN_BY = ("probe/input_untouched",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def kernel(dx, y, g, y0, y1, g0, g1, d0, d1, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    y_ = tl.load(y + row * y0 + c.to(tl.int64) * y1, mask=c < columns, other=0.0).to(tl.float32)
    g_ = tl.load(g + row * g0 + c.to(tl.int64) * g1, mask=c < columns, other=0.0).to(tl.float32)
    tl.store(dx + row * d0 + c.to(tl.int64) * d1, y_ * (g_ - tl.sum(y_ * g_, axis=0)), mask=c < columns)


@variant(operation="softmax_backward", max_columns=65536)
def softmax_backward(y, grad):
    mine = sys.getrefcount(grad) <= 2 and grad.is_contiguous() and not grad.requires_grad
    dx = grad if mine else torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        kernel[(y.shape[0],)](
            dx, y, grad, *y.stride(), *grad.stride(), *dx.stride(), y.shape[1], triton.next_power_of_2(y.shape[1])
        )
    return dx
