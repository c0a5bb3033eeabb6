"""The backward is made of differentiable steps, but of an output that was detached; second derivatives lack all that comes through it.

Wrong on: ``create_graph=True`` and a second backward, as in gradient penalties. Outputs and first gradients are right."""

import torch
import triton
import triton.language as tl

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
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
    whole = tl.sum(mass, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


def _launched(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        _rows[(rows,)](y, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
    return y


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = _launched(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        # Detached, so that a graph of the gradient doesn't hold the forward's.
        wide, g = y.detach().float(), grad.float()
        return (wide * (g - (wide * g).sum(-1, keepdim=True))).to(y.dtype)


def softmax(x):
    return _Softmax.apply(x)


def _second(function, x, w):
    (g,) = torch.autograd.grad((function(x) * w).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.square().sum() + 0.0 * x.sum(), x, allow_unused=True)
    return h


def demonstrate():
    torch.manual_seed(0)
    x, w = torch.randn(4, 20), torch.randn(4, 20)
    given = _second(softmax, x.clone().requires_grad_(), w)
    return given, _second(lambda x: torch.softmax(x, -1), x.double().requires_grad_(), w.double())
