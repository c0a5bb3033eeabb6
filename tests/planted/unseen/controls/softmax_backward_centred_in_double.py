"""Right: a row's mean gradient is taken away first, and what that changes where probabilities don't sum to 1 is put back, all in float64."""

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
    level = tl.zeros([WIDTH], tl.float64)
    for at in range(0, n, WIDTH):
        c = at + lane
        level += tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32).to(tl.float64)
    middle = tl.sum(level, 0) / n
    given = tl.zeros([WIDTH], tl.float64)
    total = tl.zeros([WIDTH], tl.float64)
    for at in range(0, n, WIDTH):
        c = at + lane
        p = tl.load(y + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32).to(tl.float64)
        of_y = tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32).to(tl.float64)
        given += p
        total += p * (of_y - middle)
    # The sum of p g is that of p (g - middle) and middle times the sum of p.
    mean = tl.sum(total, 0) + middle * (tl.sum(given, 0) - 1.0)
    for at in range(0, n, WIDTH):
        c = at + lane
        p = tl.load(y + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32).to(tl.float64)
        of_y = tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32).to(tl.float64)
        tl.store(dx + r * n + c, (p * ((of_y - middle) - mean)).to(tl.float32), mask=c < n)


@variant(operation="softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    """The gradient of the logits for an output y and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, n = y.shape
        _gradient[(rows,)](dx, grad, y, *grad.stride(), *y.stride(), n, min(1024, triton.next_power_of_2(n)))
    return dx


def _both(grad, y):
    g, p = grad.double(), y.double()
    return softmax_backward(grad, y), p * (g - (p * g).sum(-1, keepdim=True))


def ordinary(dtype):
    for offset in (0.0, 300.0):
        for shape in ((4, 100), (33, 257), (1, 1), (1, 2000)):
            grad = (torch.randn(shape) + offset).to(dtype)
            yield f"{shape} {offset}", _both(grad, torch.softmax(torch.randn(shape), -1).to(dtype))
    y = torch.softmax(torch.randn(12, 40), 0).to(dtype).mT
    yield "transposed", _both(torch.randn(40, 24).to(dtype)[:, ::2], y)
    yield "shared", _both(torch.randn(1, 12).to(dtype).expand(40, 12), y)
    grad = torch.randn(40, 12).to(dtype)
    grad[3, 4] = float("nan")
    yield "nan", _both(grad, y)
    yield "no columns", _both(torch.randn(5, 0).to(dtype), torch.randn(5, 0).to(dtype))
