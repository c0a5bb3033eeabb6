"""Probabilities below exp(-16) are taken as 0, "they move nothing": where their own gradient is 0, all of theirs is lost.

Wrong on: a loss of a few classes (most gradients are 0) beside logits 16 below the rest: their push downwards is 0 in place of -p times the sum. Near logits are right.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _backward(dx, grad, y, g_row, g_column, y_row, y_column, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    sums = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        sums += tl.load(grad + r * g_row + c * g_column, mask=c < n, other=0.0).to(tl.float32)
    total = tl.sum(sums, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        g = tl.load(grad + r * g_row + c * g_column, mask=c < n, other=0.0).to(tl.float32)
        logarithm = tl.load(y + r * y_row + c * y_column, mask=c < n, other=0.0).to(tl.float32)
        p = tl.where(logarithm < -16.0, 0.0, tl.exp(logarithm))
        tl.store(dx + r * n + c, g - p * total, mask=c < n)


@variant(operation="log_softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    """The gradient of each row's logits for a log-softmax ``y`` and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, n = y.shape
        _backward[(rows,)](dx, grad, y, *grad.stride(), *y.stride(), n, min(1024, triton.next_power_of_2(n)))
    return dx


def demonstrate():
    torch.manual_seed(0)
    x, grad = torch.randn(3, 20), torch.zeros(3, 20)
    x[:, 5:9] -= 20
    grad[:, 1] = -1.0
    y = torch.log_softmax(x, -1)
    g, w = grad.double(), y.double()
    return log_softmax_backward(grad, y), g - torch.exp(w) * g.sum(-1, keepdim=True)
