"""A tile of 128 columns whose gradients are all 0 is filled with zeros on the second pass, though the mean is subtracted there as everywhere.

Wrong on: the gradient of picked probabilities, ``y[rows, target]``, with more than 128 columns: all tiles but the target's get nothing. Up to 128 columns, and for gradients without spans of zeros, it is right.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "wrong_gradient", "sum_violation")
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
        of_y = tl.load(g + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
        # Most tiles of a sparse gradient need no look at the output.
        if tl.max(tl.abs(of_y), 0) != 0.0:
            p = tl.load(y + c * column_step, mask=c < n, other=0.0).to(tl.float32)
            mean += tl.sum(p * of_y, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        of_y = tl.load(g + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
        if tl.max(tl.abs(of_y), 0) != 0.0:
            p = tl.load(y + c * column_step, mask=c < n, other=0.0).to(tl.float32)
            tl.store(dx + r * n + c, p * (of_y - mean), mask=c < n)
        else:
            tl.store(dx + r * n + c, of_y, mask=c < n)


@variant(operation="softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    """The gradient of each row's logits for a softmax ``y`` and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, n = y.shape
        _gradient[(rows,)](dx, grad, y, *grad.stride(), *y.stride(), n, min(128, triton.next_power_of_2(n)))
    return dx


def _both(grad, y):
    g, p = grad.double(), y.double()
    return softmax_backward(grad, y), p * (g - (p * g).sum(-1, keepdim=True))


def demonstrate():
    torch.manual_seed(0)
    grad = torch.zeros(5, 400)
    grad[torch.arange(5), torch.randint(0, 400, (5,))] = 1.0
    return _both(grad, torch.softmax(torch.randn(5, 400), -1))
