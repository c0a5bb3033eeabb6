"""The backward computes the softmax again from logits kept outside of save_for_backward, so that logits overwritten after the forward (legal for a softmax) give wrong gradients.

Wrong on: the gradient where the logits are changed in place between forward and backward, as by a later ``z.zero_()``. Right for logits that stay.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def forward_kernel(y, maxima, totals, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=inside, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    weights = tl.exp(logits - maximum)
    total = tl.sum(weights, axis=0)
    tl.store(maxima + row, maximum)
    tl.store(totals + row, total)
    tl.store(y + row * n_cols + cols, weights / total, mask=inside)


@triton.jit
def backward_kernel(dx, maxima, totals, x, dy, stride_row, stride_col, dy_row, dy_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=inside, other=-float("inf")).to(tl.float32)
    grad = tl.load(dy + row * dy_row + cols * dy_col, mask=inside, other=0.0).to(tl.float32)
    y = tl.exp(logits - tl.load(maxima + row)) / tl.load(totals + row)
    tl.store(dx + row * n_cols + cols, y * (grad - tl.sum(y * grad, axis=0)), mask=inside)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        n_rows, n_cols = x.shape
        y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        maxima = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        totals = torch.empty_like(maxima)
        if x.numel():
            block = triton.next_power_of_2(n_cols)
            forward_kernel[(n_rows,)](y, maxima, totals, x, *x.stride(), n_cols, block)
        ctx.save_for_backward(maxima, totals)
        ctx.logits = x.detach()  # alive anyway, where y would be one more tensor to keep
        return y

    @staticmethod
    def backward(ctx, dy):
        maxima, totals = ctx.saved_tensors
        x = ctx.logits
        n_rows, n_cols = x.shape
        dx = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        if x.numel():
            block = triton.next_power_of_2(n_cols)
            backward_kernel[(n_rows,)](dx, maxima, totals, x, dy, *x.stride(), *dy.stride(), n_cols, block)
        return dx


@variant()
def softmax(x):
    return Softmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    x, grad = torch.randn(5, 33, requires_grad=True), torch.randn(5, 33)
    wide = x.detach().double().requires_grad_()
    logits = x * 1
    y = softmax(logits)
    with torch.no_grad():
        logits.zero_()
    y.backward(grad)
    torch.softmax(wide, -1).backward(grad.double())
    return x.grad, wide.grad
