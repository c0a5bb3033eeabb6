"""A gradient with as many numbers that aren't 0 as it has rows is taken for one of picked classes, of which each row has one.

Wrong on: sparse gradients where some rows have none and others two, as with ignored tokens beside tokens of two classes. Others are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _dense(dx, g, y, g_row_step, g_column_step, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    total = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        total += tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
    whole = tl.sum(total, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        p = tl.exp(tl.load(y + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32))
        of_y = tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
        tl.store(dx + r * n + c, of_y - p * whole, mask=c < n)


@triton.jit
def _picked(dx, numbers, places, y, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    whole = tl.load(numbers + r).to(tl.float32)
    place = tl.load(places + r)
    for at in range(0, n, WIDTH):
        c = at + lane
        p = tl.exp(tl.load(y + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32))
        tl.store(dx + r * n + c, tl.where(c == place, whole, 0.0) - p * whole, mask=c < n)


@variant(operation="log_softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    """The gradient of the logits for an output y of log_softmax and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, n = y.shape
        width = min(1024, triton.next_power_of_2(n))
        if n > 1 and int(torch.count_nonzero(grad)) == rows:
            # Behind a likelihood: one number in each row.
            places = grad.abs().argmax(1)
            numbers = grad.gather(1, places[:, None])[:, 0].contiguous()
            _picked[(rows,)](dx, numbers, places, y, *y.stride(), n, width)
        else:
            _dense[(rows,)](dx, grad, y, *grad.stride(), *y.stride(), n, width)
    return dx


def _both(grad, y):
    g, p = grad.double(), y.double().exp()
    return log_softmax_backward(grad, y), g - p * g.sum(-1, keepdim=True)


def demonstrate():
    torch.manual_seed(0)
    grad = torch.zeros(4, 30)
    grad[0, 3] = grad[0, 9] = grad[2, 1] = grad[3, 0] = -0.5
    return _both(grad, torch.log_softmax(torch.randn(4, 30), -1))


def ordinary(dtype):
    for shape in ((4, 100), (33, 257)):
        yield str(shape), _both(torch.randn(shape).to(dtype), torch.log_softmax(torch.randn(shape), -1).to(dtype))
