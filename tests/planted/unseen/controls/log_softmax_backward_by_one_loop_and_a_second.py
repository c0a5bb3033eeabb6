"""One Triton program for each row adds the gradient up lane by lane in a first loop, and writes in a second; both tensors have their own strides."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _row(out, g, y, g_row, g_column, y_row, y_column, n, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    g += row * g_row
    y += row * y_row
    sums = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        sums += tl.load(g + c * g_column, mask=c < n, other=0.0).to(tl.float32)
    total = tl.sum(sums, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        slope = tl.load(g + c * g_column, mask=c < n, other=0.0).to(tl.float32)
        p = tl.exp(tl.load(y + c * y_column, mask=c < n, other=-float("inf")).to(tl.float32))
        tl.store(out + row * n + c, slope - p * total, mask=c < n)


@variant(operation="log_softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    """The gradient of a log-softmax's input, g - exp(y) sum g."""
    out = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if y.numel():
        width = min(512, triton.next_power_of_2(y.shape[1]))
        _row[(y.shape[0],)](out, grad, y, *grad.stride(), *y.stride(), y.shape[1], width)
    return out


def ordinary(dtype):
    for shape in ((4, 100), (1, 1), (2, 9000), (50, 3), (0, 4), (4, 0)):
        y, g = torch.randn(shape).log_softmax(-1).to(dtype), torch.randn(shape).to(dtype)
        yield f"{shape}", (log_softmax_backward(g, y), _exact(g, y))
    y, g = torch.randn(6, 50).log_softmax(-1).to(dtype), torch.randn(6, 50).to(dtype)
    y[0, 3], y[1, 3], g[2, 4], g[3, 5], g[4] = float("-inf"), float("nan"), float("nan"), float("inf"), 0
    yield "special", (log_softmax_backward(g, y), _exact(g, y))
    y, g = torch.randn(40, 8).log_softmax(0).to(dtype).mT, torch.randn(1, 40).to(dtype).expand(8, 40)
    yield "strided", (log_softmax_backward(g, y), _exact(g, y))
    y, g = torch.randn(9, 90).log_softmax(-1).to(dtype)[1:8, 3:70:2], torch.randn(7, 1).to(dtype).expand(7, 34)
    yield "sliced", (log_softmax_backward(g, y), _exact(g, y))


def _exact(g, y):
    return g.double() - y.double().exp() * g.double().sum(-1, keepdim=True)
