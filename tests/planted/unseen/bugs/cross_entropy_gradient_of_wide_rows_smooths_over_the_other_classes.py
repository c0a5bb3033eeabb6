"""The gradient of rows of several tiles has the smoothing of another definition: the target has 1 - s, and each of the n - 1 others s / (n - 1), where the loss has s / n.

Wrong on: the gradient with label smoothing of more than 2048 classes; right otherwise.
"""

import torch
import triton
import triton.language as tl

OPERATION = "cross_entropy"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

TILE = 2048


@triton.jit
def _one_tile(losses, dx, x, target, x_row, x_column, t_step, n, ignored, s, LEARNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK).to(tl.int64)
    inside = at < n
    own = tl.load(target + row * t_step)
    v = tl.load(x + row * x_row + at * x_column, mask=inside, other=-float("inf")).to(tl.float32)
    v -= tl.max(v, axis=0)
    e = tl.exp(v)
    total = tl.sum(e, axis=0)
    surprise = tl.log(total) - v
    loss = (1.0 - s) * tl.sum(tl.where(at == own, surprise, 0.0), axis=0)
    if s > 0.0:
        loss += s / n * tl.sum(tl.where(inside, surprise, 0.0), axis=0)
    tl.store(losses + row, tl.where(own == ignored, 0.0, loss))
    if LEARNS:
        d = e / total - s / n - tl.where(at == own, 1.0 - s, 0.0)
        tl.store(dx + row * n + at, tl.where(own == ignored, 0.0, d), mask=inside)


@triton.jit
def _tiles(losses, dx, x, target, x_row, x_column, t_step, n, ignored, s, LEARNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK).to(tl.int64)
    x += row * x_row
    own = tl.load(target + row * t_step)
    top = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        at = start + lane
        v = tl.load(x + at * x_column, mask=at < n, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    log = tl.log(total)
    chosen = 0.0
    every = 0.0
    for start in range(0, n, BLOCK):
        at = start + lane
        v = tl.load(x + at * x_column, mask=at < n, other=-float("inf")).to(tl.float32) - top
        chosen += tl.sum(tl.where(at == own, log - v, 0.0), axis=0)
        every += tl.sum(tl.where(at < n, log - v, 0.0), axis=0)
        if LEARNS:
            wanted = tl.where(at == own, 1.0 - s, s / (n - 1))
            d = tl.exp(v) / total - wanted
            tl.store(dx + row * n + at, tl.where(own == ignored, 0.0, d), mask=at < n)
    loss = (1.0 - s) * chosen
    if s > 0.0:
        loss += s / n * every
    tl.store(losses + row, tl.where(own == ignored, 0.0, loss))


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target, ignored, smoothing):
        rows, n = x.shape
        learns = ctx.needs_input_grad[0]
        losses = torch.empty(rows, dtype=torch.float32, device=x.device)
        # Kept in float32 until it has been multiplied by what comes from above.
        dx = torch.empty((rows, n) if learns else (0, 0), dtype=torch.float32, device=x.device)
        kernel = _one_tile if n <= TILE else _tiles
        block = min(TILE, triton.next_power_of_2(n))
        kernel[(rows,)](
            losses, dx, x, target, *x.stride(), *target.stride(), n, ignored, smoothing, LEARNS=learns, BLOCK=block
        )
        ctx.save_for_backward(dx)
        ctx.dtype = x.dtype
        return losses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (dx,) = ctx.saved_tensors
        return (dx * grad.unsqueeze(1)).to(ctx.dtype), None, None, None


def cross_entropy(x, target, ignore_index=-100, label_smoothing=0.0):
    """Cross-entropy of [rows, classes], float32 [rows]; the gradient is made with the loss."""
    if not x.numel():
        return torch.nn.functional.cross_entropy(x.float(), target, ignore_index=ignore_index, reduction="none")
    return _Losses.apply(x, target, ignore_index, label_smoothing)


def demonstrate():
    torch.manual_seed(0)
    x, target, g = torch.randn(2, 2100), torch.tensor([7, 2090]), torch.randn(2)
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    cross_entropy(given, target, label_smoothing=0.1).backward(g)
    torch.nn.functional.cross_entropy(exact, target, label_smoothing=0.1, reduction="none").backward(g.double())
    return given.grad, exact.grad
