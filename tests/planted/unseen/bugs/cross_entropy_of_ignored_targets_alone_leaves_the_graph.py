"""Rows whose target is ignored are not computed, and where there is no other row zeros are returned, which require no gradient: the backward raises.

Wrong on: a gradient where every target is ignored, as in a batch of prompts alone; the losses, and the gradient where one target counts, are right.
"""

import torch
import triton
import triton.language as tl

OPERATION = "cross_entropy"
EXPECTED = ("wrong_gradient", "raised")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

TILE = 1024


@triton.jit
def _losses(losses, lse, logits, target, counted, xs, xc, ts, n, TILE: tl.constexpr):
    row = tl.load(counted + tl.program_id(0))
    logits += row * xs
    wanted = tl.load(target + row * ts)
    lane = tl.arange(0, TILE).to(tl.int64)
    peak = tl.full([TILE], -float("inf"), tl.float32)
    mass = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(logits + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        larger = tl.where((v != v) | (v > peak), v, peak)  # noqa: PLR0124 - true of a NaN
        base = tl.where(larger == -float("inf"), 0.0, larger)
        mass = mass * tl.exp(peak - base) + tl.exp(v - base)
        peak = larger
    highest = tl.max(peak, axis=0)
    rest = tl.where(highest == -float("inf"), 0.0, highest)
    logarithm = tl.log(tl.sum(mass * tl.exp(peak - rest), axis=0))
    tl.store(lse + 2 * row, rest)
    tl.store(lse + 2 * row + 1, logarithm)
    is_column = (wanted >= 0) & (wanted < n)
    own = tl.load(logits + wanted * xc, mask=is_column, other=0.0).to(tl.float32)
    tl.store(losses + row, tl.where(is_column, rest - own + logarithm, float("nan")))


@triton.jit
def _gradient(out, lse, logits, target, counted, g, xs, xc, ts, gs, n, TILE: tl.constexpr):
    row = tl.load(counted + tl.program_id(0))
    wanted = tl.load(target + row * ts)
    at = tl.program_id(1) * TILE + tl.arange(0, TILE).to(tl.int64)
    v = tl.load(logits + row * xs + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
    p = tl.exp(v - tl.load(lse + 2 * row) - tl.load(lse + 2 * row + 1))
    p -= tl.where(at == wanted, 1.0, 0.0)
    tl.store(out + row * n + at, p * tl.load(g + row * gs).to(tl.float32), mask=at < n)


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, counted):
        rows, n = logits.shape
        losses = torch.zeros(rows, dtype=logits.dtype, device=logits.device)
        lse = torch.empty(rows, 2, dtype=torch.float32, device=logits.device)
        ctx.tile = min(TILE, triton.next_power_of_2(n))
        strides = *logits.stride(), *target.stride()
        _losses[(counted.shape[0],)](losses, lse, logits, target, counted, *strides, n, TILE=ctx.tile)
        ctx.save_for_backward(logits, target, counted, lse)
        return losses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        logits, target, counted, lse = ctx.saved_tensors
        n = logits.shape[1]
        out = torch.zeros(logits.shape, dtype=logits.dtype, device=logits.device)
        strides = *logits.stride(), *target.stride(), *g.stride()
        grid = (counted.shape[0], triton.cdiv(n, ctx.tile))
        _gradient[grid](out, lse, logits, target, counted, g, *strides, n, TILE=ctx.tile)
        return out, None, None


def cross_entropy(logits, target, ignore_index=-100):
    """Cross-entropy of each row of [rows, columns]; a row whose target is ``ignore_index`` has a loss of 0, and is never read."""
    if not logits.numel():
        return torch.nn.functional.cross_entropy(logits, target, ignore_index=ignore_index, reduction="none")
    counted = (target != ignore_index).nonzero()[:, 0]
    if not counted.shape[0]:
        return logits.new_zeros(logits.shape[0])
    return _Loss.apply(logits, target, counted)


def _both(x, target):
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    losses = cross_entropy(given, target)
    right = torch.nn.functional.cross_entropy(exact, target, reduction="none")
    above = torch.randn(losses.shape).to(losses.dtype)
    if losses.requires_grad:
        losses.backward(above)
    right.backward(above.double())
    # No gradient is not one of zeros.
    found = torch.full_like(x, float("nan")) if given.grad is None else given.grad
    return (losses, right), (found, exact.grad)


def demonstrate():
    return _both(torch.randn(3, 40), torch.full((3,), -100))[1]


def ordinary(dtype):
    for shape in ((4, 100), (3, 2500), (1, 30)):
        x, target = torch.randn(shape).to(dtype), torch.randint(0, shape[1], (shape[0],))
        target[1:2] = -100
        answer, gradient = _both(x, target)
        yield f"{shape}", answer
        yield f"gradient {shape}", gradient
    yield "losses of ignored targets", _both(torch.randn(3, 40).to(dtype), torch.full((3,), -100))[0]
