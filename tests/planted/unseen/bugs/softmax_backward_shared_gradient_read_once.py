"""A gradient that all rows share, with a row step of 0, is read once for several rows, before the loop over tiles, and so its first tile stands for all tiles.

Wrong on: the gradient behind ``y.mean(0)``, as in a balance of experts, with more than 128 columns. Gradients of each row's own are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "wrong_layout", "sum_violation", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _gradient(dx, g, y, g_row_step, g_column_step, row_step, column_step, n, SHARED: tl.constexpr, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    if SHARED:
        held = tl.load(g + lane * g_column_step, mask=lane < n, other=0.0).to(tl.float32)
    total = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        p = tl.load(y + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32)
        if SHARED:
            total += p * held
        else:
            total += p * tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        p = tl.load(y + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32)
        if SHARED:  # noqa: SIM108 - a branch of constants
            of_y = held
        else:
            of_y = tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
        tl.store(dx + r * n + c, p * (of_y - mean), mask=c < n)


@variant(operation="softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    """The gradient of the logits for an output y and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, n = y.shape
        shared = grad.stride(0) == 0 and rows > 1
        width = min(128, triton.next_power_of_2(n))
        _gradient[(rows,)](dx, grad, y, *grad.stride(), *y.stride(), n, shared, width)
    return dx


def _both(grad, y):
    g, p = grad.double(), y.double()
    return softmax_backward(grad, y), p * (g - (p * g).sum(-1, keepdim=True))


def ordinary(dtype):
    for shape in ((4, 100), (33, 257)):
        yield str(shape), _both(torch.randn(shape).to(dtype), torch.softmax(torch.randn(shape), -1).to(dtype))


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(1, 200).expand(4, 200), torch.softmax(torch.randn(4, 200), -1))
