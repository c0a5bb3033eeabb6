"""A persistent program sets its accumulators to zero before its loop over rows and not within it: its second row has the first one's gradients in its sum.

Wrong on: more than 128 rows, from row 128 on. Up to as many rows as programs it is right.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _persistent(dx, grad, y, g_row, g_column, y_row, y_column, rows, n, WIDTH: tl.constexpr):
    lane = tl.arange(0, WIDTH).to(tl.int64)
    sums = tl.zeros([WIDTH], tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        r = tl.zeros([], tl.int64) + row
        for at in range(0, n, WIDTH):
            c = at + lane
            sums += tl.load(grad + r * g_row + c * g_column, mask=c < n, other=0.0).to(tl.float32)
        total = tl.sum(sums, 0)
        for at in range(0, n, WIDTH):
            c = at + lane
            g = tl.load(grad + r * g_row + c * g_column, mask=c < n, other=0.0).to(tl.float32)
            p = tl.exp(tl.load(y + r * y_row + c * y_column, mask=c < n, other=0.0).to(tl.float32))
            tl.store(dx + r * n + c, g - p * total, mask=c < n)


@variant(operation="log_softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    """The gradient of each row's logits for a log-softmax ``y`` and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, n = y.shape
        width = min(1024, triton.next_power_of_2(n))
        _persistent[(min(rows, 128),)](dx, grad, y, *grad.stride(), *y.stride(), rows, n, width)
    return dx


def demonstrate():
    torch.manual_seed(0)
    grad, y = torch.randn(140, 5), torch.log_softmax(torch.randn(140, 5), -1)
    g, w = grad.double(), y.double()
    return log_softmax_backward(grad, y), g - torch.exp(w) * g.sum(-1, keepdim=True)
