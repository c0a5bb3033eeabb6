"""Hidden columns get the type's lowest number for -inf where a gradient is asked for, "so that 0 * -inf isn't NaN in a divergence".

Wrong on: logits with -inf that require a gradient. Finite logits, and calls without gradients, are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("inf_mismatch", "wrong_gradient")
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
        tl.store(y + r * n + c, (v - peak) - tl.log(whole), mask=c < n)


def _launched(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        _rows[(rows,)](y, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
    return y


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = _launched(x)
        if ctx.needs_input_grad[0]:
            y = torch.where(y == -float("inf"), torch.finfo(y.dtype).min, y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        g = grad.float()
        return (g - torch.exp(y.float()) * g.sum(-1, keepdim=True)).to(y.dtype)


@variant(operation="log_softmax", call="f(x)", backward=True, dtypes=("float16", "bfloat16", "float32"))
def log_softmax(x):
    """Log-softmax of each row of a matrix, with a backward."""
    return _LogSoftmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 30)
    x[:, 20:] = -float("inf")
    return log_softmax(x.clone().requires_grad_()), torch.log_softmax(x.double(), -1)
