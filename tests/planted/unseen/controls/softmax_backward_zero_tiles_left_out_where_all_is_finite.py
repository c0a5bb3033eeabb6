"""Right: tiles of probabilities that are all 0 are filled with zeros, but only where their gradients and the row's mean are finite, since 0 times infinity is NaN."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
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
        of_y = tl.load(g + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
        # Infinite and NaN less themselves are NaN, which equals nothing.
        is_idle = (tl.sum(tl.abs(p), 0) == 0.0) & (tl.sum(of_y - of_y, 0) == 0.0)
        if not is_idle:
            mean += tl.sum(p * of_y, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        p = tl.load(y + c * column_step, mask=c < n, other=0.0).to(tl.float32)
        of_y = tl.load(g + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
        is_idle = (tl.sum(tl.abs(p), 0) == 0.0) & (tl.sum(of_y - of_y, 0) == 0.0) & (mean - mean == 0.0)
        if is_idle:
            tl.store(dx + r * n + c, tl.zeros([WIDTH], tl.float32), mask=c < n)
        else:
            tl.store(dx + r * n + c, p * (of_y - mean), mask=c < n)


@variant(operation="softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    """The gradient of each row's logits for a softmax ``y`` and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, n = y.shape
        _gradient[(rows,)](dx, grad, y, *grad.stride(), *y.stride(), n, min(512, triton.next_power_of_2(n)))
    return dx
