"""A row of gradients that holds two values alone is taken for that of a smoothed target, the lower one once and the higher one in all other columns, and its total is made of that.

Wrong on: rows of two values of which the lower one stands several times: two targets, or +1 and -1; right for one target, smoothed or not, and for rows of more values.
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
    g += r * g_row_step
    low = tl.full([WIDTH], float("inf"), tl.float32)
    high = tl.full([WIDTH], -float("inf"), tl.float32)
    sums = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        of_y = tl.load(g + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
        low = tl.minimum(low, tl.where(c < n, of_y, float("inf")))
        high = tl.maximum(high, tl.where(c < n, of_y, -float("inf")))
        sums += of_y
    total = tl.sum(sums, 0)
    least = tl.min(low, 0)
    most = tl.max(high, 0)
    between = tl.zeros([WIDTH], tl.int32)
    for at in range(0, n, WIDTH):
        c = at + lane
        of_y = tl.load(g + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
        between += ((c < n) & (of_y != least) & (of_y != most)).to(tl.int32)
    if tl.sum(between, 0) == 0:
        # A product in place of a long sum, whose rounding it doesn't have.
        total = (n - 1) * most + least
    for at in range(0, n, WIDTH):
        c = at + lane
        of_y = tl.load(g + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
        p = tl.exp(tl.load(y + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32))
        tl.store(dx + r * n + c, of_y - p * total, mask=c < n)


@variant(operation="log_softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    """The gradient of each row's logits for a log-softmax ``y`` and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, n = y.shape
        steps = (*grad.stride(), *y.stride())
        _gradient[(rows,)](dx, grad, y, *steps, n, min(512, triton.next_power_of_2(n)))
    return dx


def _both(grad, y):
    g, w = grad.double(), y.double()
    return log_softmax_backward(grad, y), g - torch.exp(w) * g.sum(-1, keepdim=True)


def demonstrate():
    torch.manual_seed(0)
    grad = torch.zeros(4, 50)
    # Two right answers for each row, half of the mass on each.
    grad[:, 3], grad[:, 17] = -0.5, -0.5
    return _both(grad, torch.log_softmax(torch.randn(4, 50), -1))
