"""The rule for forward-mode derivatives takes the plain mean of the tangents away where the mean by probabilities belongs.

Wrong on: ``torch.func.jvp``, ``jacfwd``, ``hessian`` and dual numbers. Outputs and backward gradients are right."""

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
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
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
    def forward(x):
        return _launched(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        wide, g = y.float(), grad.float()
        return (wide * (g - (wide * g).sum(-1, keepdim=True))).to(y.dtype)

    @staticmethod
    def jvp(ctx, tangent):
        (y,) = ctx.saved_tensors
        wide, t = y.float(), tangent.float()
        return (wide * (t - t.mean(-1, keepdim=True))).to(y.dtype)


def softmax(x):
    return _Softmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    x, t = torch.randn(4, 20), torch.randn(4, 20)
    _, given = torch.func.jvp(softmax, (x,), (t,))
    _, exact = torch.func.jvp(lambda x: torch.softmax(x, -1), (x.double(),), (t.double(),))
    return given, exact
