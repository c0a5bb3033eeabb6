"""The forward saves its input and, beside it, the strides; hooks on saved tensors give the backward a packed copy, which is read by the strides of old.

Wrong on: gradients of transposed or sliced logits within ``save_on_cpu(pin_memory=True)`` or other hooks that pack. Others are right."""

import torch
import triton
import triton.language as tl

EXPECTED = ("wrong_gradient", "out_of_bounds_read")
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


@triton.jit
def _gradient(dx, g, x, g_row_step, g_column_step, row_step, column_step, n, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    p = e / tl.sum(e, 0)
    of_y = tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
    tl.store(dx + r * n + c, p * (of_y - tl.sum(p * of_y, 0)), mask=c < n)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if y.numel():
            rows, n = x.shape
            _rows[(rows,)](y, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
        ctx.save_for_backward(x)
        ctx.plan = (x.stride(), triton.next_power_of_2(max(1, x.shape[1])))
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        steps, block = ctx.plan
        dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if dx.numel():
            _gradient[(x.shape[0],)](dx, grad, x, *grad.stride(), *steps, x.shape[1], block)
        return dx


def softmax(x):
    return _Softmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    base, w = torch.randn(12, 12), torch.randn(12, 12)
    x = base.clone().requires_grad_()
    # As save_on_cpu(pin_memory=True) packs what it is given.
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.clone(memory_format=torch.contiguous_format), lambda t: t
    ):
        y = softmax(x.mT)
    (y * w).sum().backward()
    exact = base.double().requires_grad_()
    (torch.softmax(exact.mT, -1) * w.double()).sum().backward()
    return x.grad, exact.grad
