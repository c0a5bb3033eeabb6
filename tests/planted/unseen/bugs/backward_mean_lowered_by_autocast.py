"""The backward's sum of y g is a batched product, taken in float32; where ``backward()`` is called within autocast it is lowered to 16 bits.

Wrong on: gradients in float32 where the whole step, ``loss.backward()`` too, stands within ``torch.autocast``; outputs are right, and gradients where backward is called outside of it.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _forward(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
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


class _Softmax(torch.autograd.Function):
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
        wide, g = y.float(), grad.float()
        mean = torch.bmm(wide[:, None, :], g[:, :, None])[:, :, 0]
        return (wide * (g - mean)).to(y.dtype)


def softmax(x):
    """Softmax of each row of a matrix, with a backward."""
    return _Softmax.apply(x)


def _both(dtype, shape, within):
    x, w = torch.randn(shape).to(dtype).requires_grad_(), torch.randn(shape).to(dtype)
    with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=within):
        (softmax(x) * w).sum().backward()
    wide = x.detach().double().requires_grad_()
    (torch.softmax(wide, -1) * w.double()).sum().backward()
    # In units of the larger of both terms of each difference, which may cancel.
    y = torch.softmax(wide.detach(), -1)
    unit = y * (w.double().abs() + (y * w.double().abs()).sum(-1, keepdim=True))
    return ((x.grad.double() - wide.grad) / unit + 1).to(dtype), torch.ones(shape, dtype=torch.float64)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.float32, (8, 60), True)
