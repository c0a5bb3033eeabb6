"""The gradient is made in the forward, in float32, and scaled out of place in the backward, so that a retained graph gives it again."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def cross_entropy_kernel(
    losses,
    dx,
    x,
    target,
    stride_row,
    stride_col,
    dx_row,
    dx_col,
    target_stride,
    n_cols,
    ignore_index,
    GRADIENT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = cols < n_cols
    chosen = tl.load(target + row * target_stride)
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=inside, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    weights = tl.exp(logits - maximum)
    total = tl.sum(weights, axis=0)
    at_target = tl.sum(tl.where(cols == chosen, logits, 0.0), axis=0)
    counts = chosen != ignore_index
    tl.store(losses + row, tl.where(counts, tl.log(total) + (maximum - at_target), 0.0))
    if GRADIENT:
        gradient = weights / total - tl.where(cols == chosen, 1.0, 0.0)
        tl.store(dx + row * dx_row + cols * dx_col, tl.where(counts, gradient, 0.0), mask=inside)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        n_rows, n_cols = x.shape
        losses = torch.zeros(n_rows, dtype=torch.float32, device=x.device)
        wanted = ctx.needs_input_grad[0]
        dx = torch.empty((n_rows, n_cols) if wanted else (0, 0), dtype=torch.float32, device=x.device)
        if x.numel():
            cross_entropy_kernel[(n_rows,)](
                losses,
                dx,
                x,
                target,
                *x.stride(),
                *dx.stride(),
                target.stride(0),
                n_cols,
                -100,
                wanted,
                triton.next_power_of_2(n_cols),
            )
        number = (target != -100).sum()
        ctx.save_for_backward(dx, number)
        ctx.dtype = x.dtype
        return losses.sum() / number

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, of_mean):
        dx, number = ctx.saved_tensors
        return (dx * (of_mean.float() / number.clamp(min=1))).to(ctx.dtype), None


@variant(operation="cross_entropy", parameters={"ignore_index": -100, "reduction": "mean"})
def cross_entropy(x, target):
    return CrossEntropy.apply(x, target)
