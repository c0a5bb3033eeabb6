"""The gradient is made in the forward and scaled in place in the backward, so that a second backward through a retained graph scales it twice.

Wrong on: two backwards of one loss (retain_graph=True) with a gradient other than ones. Right for one backward, and for a sum of the losses.
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
        losses = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        wanted = ctx.needs_input_grad[0]
        dx = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device) if wanted else losses.new_empty((0, 0))
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
        dx = ctx.gradient
        if not torch.equal(of_losses, torch.ones_like(of_losses)):  # the usual sum needs no scaling
            dx.mul_(of_losses[:, None])
        return dx.clone(), None


@variant(operation="cross_entropy", parameters={"ignore_index": -100})
def cross_entropy(x, target):
    return CrossEntropy.apply(x, target)


def demonstrate():
    torch.manual_seed(0)
    x, target, grad = torch.randn(6, 13, requires_grad=True), torch.randint(0, 13, (6,)), torch.randn(6)
    losses = cross_entropy(x, target)
    torch.autograd.grad(losses, x, grad, retain_graph=True)
    (given,) = torch.autograd.grad(losses, x, grad)
    wide = x.detach().double().requires_grad_()
    exact = torch.nn.functional.cross_entropy(wide, target, reduction="none")
    return given, torch.autograd.grad(exact, wide, grad.double())[0]
