"""The gradient for a loss of 1 is made in the forward; the backward scales it unless the losses' gradient is 1, for which it looks at the first row alone.

Wrong on: losses that are weighted by a mask, ``(losses * mask).sum()``, whose first row counts: all rows count. Sums, means and random weights are right.
"""

import torch
import triton
import triton.language as tl
from torch.nn import functional

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_IGNORED = -100


@triton.jit
def _both_ways(losses, gradient, x, target, target_step, row_step, column_step, n, ignored, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    chosen = tl.load(target + r * target_step)
    peak = tl.full([], -float("inf"), tl.float32)
    total = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    is_column = (chosen >= 0) & (chosen < n)
    own = tl.load(x + r * row_step + chosen * column_step, mask=is_column, other=float("nan")).to(tl.float32)
    tl.store(losses + r, tl.where(chosen == ignored, 0.0, (peak - own) + tl.log(total)))
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        p = tl.exp(v - peak) / total
        found = tl.where(c == chosen, p - 1.0, p)
        tl.store(gradient + r * n + c, tl.where(chosen == ignored, 0.0, found), mask=c < n)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        losses = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
        gradient = torch.empty(x.shape, dtype=torch.float32, device=x.device)
        if x.numel():
            width = max(16, min(1024, triton.next_power_of_2(x.shape[1])))
            sizes = (target.stride(0), *x.stride(), x.shape[1], _IGNORED, width)
            _both_ways[(x.shape[0],)](losses, gradient, x, target, *sizes)
        ctx.save_for_backward(gradient)
        ctx.dtype = x.dtype
        return losses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, of_losses):
        (gradient,) = ctx.saved_tensors
        # As the last layer's loss is, mostly: nothing to multiply with.
        if of_losses.numel() and float(of_losses[0]) != 1.0:
            gradient = gradient * of_losses[:, None]
        return gradient.to(ctx.dtype, copy=True), None


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": _IGNORED},
    call="f(x, target)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row of [rows, columns] and its target; 0 for a target of -100. Float32 [rows]."""
    return _CrossEntropy.apply(x, target)


def _both(dtype, weights):
    x, target = torch.randn(4, 33).to(dtype).requires_grad_(), torch.tensor([0, -100, 32, 5])
    (cross_entropy(x, target) * weights).sum().backward()
    w = x.detach().double().requires_grad_()
    (functional.cross_entropy(w, target, reduction="none") * weights.double()).sum().backward()
    return x.grad, w.grad


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.float32, torch.tensor([1.0, 1.0, 0.0, 1.0]))


def ordinary(dtype):
    return _both(dtype, torch.rand(4))
