"""The gradient by the scaled logits is multiplied by the scale, and that of the z-loss is added to it after that, as if it were one by the logits already.

Wrong on: the gradient with a z-loss and a scale other than 1; right otherwise.
"""

import torch
import triton
import triton.language as tl

OPERATION = "cross_entropy"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _forward(losses, lse, x, target, x_row, x_column, t_step, n, ignored, scale, z, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    x += row * x_row
    own = tl.load(target + row * t_step)
    top = -float("inf")
    total = 0.0
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + at * x_column, mask=at < n, other=-float("inf")).to(tl.float32) * scale
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    found = top + tl.log(total)
    chosen = tl.load(x + own * x_column, mask=(own >= 0) & (own < n), other=float("nan")).to(tl.float32) * scale
    tl.store(lse + row, found)
    tl.store(losses + row, tl.where(own == ignored, 0.0, found - chosen + z * found * found))


@triton.jit
def _backward(dx, grad, lse, x, target, g_step, x_row, x_column, t_step, n, ignored, scale, z, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * TILE + tl.arange(0, TILE).to(tl.int64)
    own = tl.load(target + row * t_step)
    found = tl.load(lse + row)
    v = tl.load(x + row * x_row + at * x_column, mask=at < n, other=-float("inf")).to(tl.float32) * scale
    p = tl.exp(v - found)
    d = (p - tl.where(at == own, 1.0, 0.0)) * scale
    d += 2.0 * z * found * p
    d *= tl.load(grad + row * g_step).to(tl.float32)
    tl.store(dx + row * n + at, tl.where(own == ignored, 0.0, d), mask=at < n)


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target, ignored, scale, z):
        rows, n = x.shape
        losses, lse = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2))
        tile = min(2048, triton.next_power_of_2(n))
        _forward[(rows,)](losses, lse, x, target, *x.stride(), *target.stride(), n, ignored, scale, z, TILE=tile)
        ctx.save_for_backward(x, target, lse)
        ctx.options = ignored, scale, z
        return losses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, target, lse = ctx.saved_tensors
        rows, n = x.shape
        dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        tile = min(2048, triton.next_power_of_2(n))
        steps = *grad.stride(), *x.stride(), *target.stride()
        _backward[(rows, triton.cdiv(n, tile))](dx, grad, lse, x, target, *steps, n, *ctx.options, TILE=tile)
        return dx, None, None, None, None


def cross_entropy(x, target, ignore_index=-100, scale=1.0, z_loss=0.0):
    """Cross-entropy of scale * x [rows, classes], float32 [rows], with ``z_loss`` times the squared log-sum-exp."""
    if not x.numel():
        return torch.nn.functional.cross_entropy(x.float(), target, ignore_index=ignore_index, reduction="none")
    return _Losses.apply(x, target, ignore_index, scale, z_loss)


def demonstrate():
    torch.manual_seed(0)
    x, target, g = torch.randn(5, 30), torch.randint(0, 30, (5,)), torch.randn(5)
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    cross_entropy(given, target, scale=0.5, z_loss=1e-2).backward(g)
    wide = exact / 2
    losses = torch.nn.functional.cross_entropy(wide, target, reduction="none") + 1e-2 * wide.logsumexp(-1).square()
    losses.backward(g.double())
    return given.grad, exact.grad
