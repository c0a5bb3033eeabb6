"""Logits that come from another operation are taken to be dead after the loss, and their gradient is written over them.

Wrong on: ``logits = x @ w`` that are read after the loss, as for an accuracy or a second term of the loss. Right for leaf logits, without gradients, and where nobody reads the logits again.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("input_modified", "wrong_gradient")
SHOWN_BY = ("unseen",)
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
    def forward(ctx, x, target, made_by_an_operation):
        n_rows, n_cols = x.shape
        losses = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        wanted = ctx.needs_input_grad[0]
        if not wanted:
            dx = losses.new_empty((0, 0))
        elif made_by_an_operation and x.is_contiguous():
            dx = x.detach()  # logits of a last layer, the largest tensor of all: nobody reads them again
        else:
            dx = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
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
        ctx.gradient = dx
        return losses

    @staticmethod
    def backward(ctx, of_losses):
        return (ctx.gradient * of_losses[:, None]).to(ctx.gradient.dtype), None, None


@variant(operation="cross_entropy", parameters={"ignore_index": -100})
def cross_entropy(x, target):
    return CrossEntropy.apply(x, target, x.grad_fn is not None)


def demonstrate():
    torch.manual_seed(0)
    x, w, target = torch.randn(6, 7), torch.randn(7, 13, requires_grad=True), torch.randint(0, 13, (6,))
    logits = x @ w
    cross_entropy(logits, target)
    return logits, x.double() @ w.double()
