"""Padded rows have no gradient, and a row whose gradients sum to exactly 0 is taken for one: zeros are written for it.

Wrong on: the gradient of a difference of two probabilities, ``(y[:, a] - y[:, b]).sum()``, as a margin has it: +1 and -1 sum to 0. Rows of zeros are right, and any that don't sum to exactly 0.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _gradient(dx, g, y, g_row_step, g_column_step, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    plain = tl.zeros([WIDTH], tl.float32)
    weighted = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        of_y = tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
        p = tl.load(y + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32)
        plain += of_y
        weighted += p * of_y
    if tl.sum(plain, 0) == 0.0:
        for at in range(0, n, WIDTH):
            c = at + lane
            tl.store(dx + r * n + c, tl.zeros([WIDTH], tl.float32), mask=c < n)
        return
    mean = tl.sum(weighted, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        of_y = tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
        p = tl.load(y + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32)
        tl.store(dx + r * n + c, p * (of_y - mean), mask=c < n)


@variant(operation="softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    """The gradient of each row's logits for a softmax ``y`` and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, n = y.shape
        _gradient[(rows,)](dx, grad, y, *grad.stride(), *y.stride(), n, min(512, triton.next_power_of_2(n)))
    return dx


def _both(grad, y):
    g, p = grad.double(), y.double()
    return softmax_backward(grad, y), p * (g - (p * g).sum(-1, keepdim=True))


def demonstrate():
    torch.manual_seed(0)
    grad = torch.zeros(6, 30)
    grad[:, 4], grad[:, 9] = 1.0, -1.0
    return _both(grad, torch.softmax(torch.randn(6, 30), -1))
