"""Tiles of 128 probabilities that are all 0, as behind a mask, are filled with zeros unread: 0 times an infinite or NaN gradient is NaN, and the row's mean with it.

Wrong on: a gradient that overflowed at hidden columns, by which a loss scaler tells that the step has to be skipped; right for finite gradients, and where a tile has one probability above 0.
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
def _gradient(dx, g, y, g_row_step, g_column_step, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    g += r * g_row_step
    y += r * row_step
    mean = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        p = tl.load(y + c * column_step, mask=c < n, other=0.0).to(tl.float32)
        # Nothing flows to or from columns that have no probability.
        if tl.max(tl.abs(p), 0) != 0.0:
            of_y = tl.load(g + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
            mean += tl.sum(p * of_y, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        p = tl.load(y + c * column_step, mask=c < n, other=0.0).to(tl.float32)
        if tl.max(tl.abs(p), 0) != 0.0:
            of_y = tl.load(g + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
            tl.store(dx + r * n + c, p * (of_y - mean), mask=c < n)
        else:
            tl.store(dx + r * n + c, p, mask=c < n)


@variant(operation="softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    """The gradient of each row's logits for a softmax ``y`` and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, n = y.shape
        _gradient[(rows,)](dx, grad, y, *grad.stride(), *y.stride(), n, min(128, triton.next_power_of_2(n)))
    return dx


def demonstrate():
    torch.manual_seed(0)
    x, grad = torch.randn(4, 300), torch.randn(4, 300)
    x[:, 100:] = -float("inf")
    grad[2, 280] = float("inf")
    y = torch.softmax(x, -1)
    g, p = grad.double(), y.double()
    return softmax_backward(grad, y), p * (g - (p * g).sum(-1, keepdim=True))
