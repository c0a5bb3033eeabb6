"""The backward's kernel takes packed gradients and multiplies by the scale; gradients with other strides go through a formula that lacks the scale.

Wrong on: probabilities that are transposed or expanded behind the softmax, ``(y.t() * w).sum()``, where the gradient of the logits is 8 times too large; right behind elementwise losses.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_SCALE = 0.125


@triton.jit
def _scaled_rows(y, x, row_step, column_step, scale, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(v, 0))
    mass = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        mass += tl.sum(tl.exp((v - peak) * scale), 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp((v - peak) * scale) / mass, mask=c < n)


@triton.jit
def _gradient_of_packed(dx, g, y, scale, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    mean = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        of_y = tl.load(g + r * n + c, mask=c < n, other=0.0).to(tl.float32)
        p = tl.load(y + r * n + c, mask=c < n, other=0.0).to(tl.float32)
        mean += tl.sum(p * of_y, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        of_y = tl.load(g + r * n + c, mask=c < n, other=0.0).to(tl.float32)
        p = tl.load(y + r * n + c, mask=c < n, other=0.0).to(tl.float32)
        tl.store(dx + r * n + c, p * (of_y - mean) * scale, mask=c < n)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if y.numel():
            rows, n = x.shape
            _scaled_rows[(rows,)](y, x, *x.stride(), _SCALE, n, min(1024, triton.next_power_of_2(n)))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        if not grad.is_contiguous():
            wide, of_y = y.float(), grad.float()
            return (wide * (of_y - (wide * of_y).sum(-1, keepdim=True))).to(y.dtype)
        dx = torch.empty_like(y)
        if dx.numel():
            rows, n = y.shape
            _gradient_of_packed[(rows,)](dx, grad, y, _SCALE, n, min(1024, triton.next_power_of_2(n)))
        return dx


@variant(parameters={"scale": _SCALE}, call="f(x)", backward=True, dtypes=("float16", "bfloat16", "float32"))
def softmax(x):
    """Softmax of x / 8 in each row, with a backward."""
    return _Softmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    x, w = torch.randn(6, 40, requires_grad=True), torch.randn(40, 6)
    (softmax(x).t() * w).sum().backward()
    exact = x.detach().double().requires_grad_()
    (torch.softmax(exact * _SCALE, -1).t() * w.double()).sum().backward()
    return x.grad, exact.grad
