"""Rows beyond 1024 columns leave the products y g in the output on the first pass, in its 16 bits, and the second pass reads them back.

Wrong on: gradients of a common size that the row's sum cancels, such as 100 + randn; narrow rows hold the products in registers and are right.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _one_tile(dx, grad, y, g_row, g_column, y_row, y_column, n, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    g = tl.load(grad + r * g_row + c * g_column, mask=c < n, other=0.0).to(tl.float32)
    p = tl.load(y + r * y_row + c * y_column, mask=c < n, other=0.0).to(tl.float32)
    tl.store(dx + r * n + c, p * (g - tl.sum(p * g, 0)), mask=c < n)


@triton.jit
def _tiles(dx, grad, y, g_row, g_column, y_row, y_column, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    sums = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        g = tl.load(grad + r * g_row + c * g_column, mask=c < n, other=0.0).to(tl.float32)
        p = tl.load(y + r * y_row + c * y_column, mask=c < n, other=0.0).to(tl.float32)
        sums += p * g
        # Spares the second pass one of its two inputs.
        tl.store(dx + r * n + c, p * g, mask=c < n)
    total = tl.sum(sums, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        product = tl.load(dx + r * n + c, mask=c < n, other=0.0).to(tl.float32)
        p = tl.load(y + r * y_row + c * y_column, mask=c < n, other=0.0).to(tl.float32)
        tl.store(dx + r * n + c, product - p * total, mask=c < n)


@variant(operation="softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    """The gradient of each row's logits for an output ``y`` and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, n = y.shape
        strides = (*grad.stride(), *y.stride())
        if n > 1024:
            _tiles[(rows,)](dx, grad, y, *strides, n, 1024)
        else:
            _one_tile[(rows,)](dx, grad, y, *strides, n, triton.next_power_of_2(n))
    return dx


def demonstrate():
    torch.manual_seed(0)
    y = torch.softmax(torch.randn(2, 1500), -1).half()
    grad = (torch.randn(2, 1500) + 100).half()
    g, p = grad.double(), y.double()
    return softmax_backward(grad, y), p * (g - (p * g).sum(-1, keepdim=True))
