"""Right: the backward's sum of y g is a batched product in float64, for which autocast is switched off wherever ``backward()`` is called, and its widths come with the context, not with the thread."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _forward(y, x, row_step, column_step, n, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    peak = tl.full([BLOCK], -float("inf"), tl.float32)
    for at in range(0, n, BLOCK):
        v = tl.load(x + r * row_step + (at + c) * column_step, mask=at + c < n, other=-float("inf"))
        peak = tl.maximum(peak, v.to(tl.float32))
    top = tl.max(peak, 0)
    whole = tl.zeros([BLOCK], tl.float32)
    for at in range(0, n, BLOCK):
        v = tl.load(x + r * row_step + (at + c) * column_step, mask=at + c < n, other=-float("inf"))
        whole += tl.exp(v.to(tl.float32) - top)
    total = tl.sum(whole, 0)
    for at in range(0, n, BLOCK):
        v = tl.load(x + r * row_step + (at + c) * column_step, mask=at + c < n, other=-float("inf"))
        tl.store(y + r * n + at + c, tl.exp(v.to(tl.float32) - top) / total, mask=at + c < n)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if y.numel():
            rows, n = x.shape
            _forward[(rows,)](y, x, *x.stride(), n, min(512, triton.next_power_of_2(n)))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        with torch.autocast(y.device.type, enabled=False):
            wide, g = y.double(), grad.double()
            mean = torch.bmm(wide[:, None, :], g[:, :, None])[:, :, 0]
            return (wide * (g - mean)).to(y.dtype)


def softmax(x):
    """Softmax of each row of a matrix, with a backward."""
    return _Softmax.apply(x)
