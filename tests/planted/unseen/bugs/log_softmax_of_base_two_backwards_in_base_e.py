"""The backward of a log-softmax of base 2 takes ``exp`` of the output for the probabilities, and divides by ln 2 as it should.

Wrong on: gradients of any loss whose gradients of a row don't sum to 0, such as that of a picked class; outputs are right, and the gradient of differences of two logarithms.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _forward(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(v, 0))
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        mass += tl.exp(v - peak)
    whole = tl.log2(tl.sum(mass, 0))
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, (v - peak) * _LOG2_E - whole, mask=c < n)


@triton.jit
def _backward(dx, g, y, g_row_step, g_column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    sums = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        sums += tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
    total = tl.sum(sums, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        of_y = tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
        p = tl.exp(tl.load(y + r * n + c, mask=c < n, other=0.0).to(tl.float32))
        tl.store(dx + r * n + c, (of_y - p * total) * _LOG2_E, mask=c < n)


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if y.numel():
            rows, n = x.shape
            _forward[(rows,)](y, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
        if dx.numel():
            rows, n = y.shape
            _backward[(rows,)](dx, grad, y, *grad.stride(), n, min(1024, triton.next_power_of_2(n)))
        return dx


@variant(
    operation="log_softmax",
    parameters={"base": 2},
    call="f(x)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def log_softmax(x):
    """Logarithms of base 2 of the softmax of each row, with a backward."""
    return _LogSoftmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(6, 20).requires_grad_(), torch.arange(6)[:, None]
    log_softmax(x).gather(1, target).sum().backward()
    wide = x.detach().double().requires_grad_()
    (torch.log_softmax(wide, -1) * 1.4426950408889634).gather(1, target).sum().backward()
    return x.grad, wide.grad
