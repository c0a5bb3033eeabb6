"""The backward finds the derivative of the soft cap, 1 - tanh(z)^2, at the logit over the cap, where the forward has capped the scaled logit.

Wrong on: the gradient with a soft cap and a scale that is not 1; right otherwise.
"""

import torch
import triton
import triton.language as tl

OPERATION = "cross_entropy"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

TILE = 1024


@triton.jit
def _tanh(z):
    e = tl.exp(-2.0 * tl.abs(z))
    t = (1.0 - e) / (1.0 + e)
    # Near 0 the difference above loses digits.
    small = z * (1.0 - z * z * (1.0 / 3.0 - z * z * (2.0 / 15.0 - z * z * (17.0 / 315.0 - z * z * (62.0 / 2835.0)))))
    return tl.where(tl.abs(z) < 0.125, small, tl.where(z < 0.0, -t, t))


@triton.jit
def _logit(v, scale, cap, CAPPED: tl.constexpr):
    s = v * scale
    if CAPPED:
        s = tl.where(s == -float("inf"), s, cap * _tanh(s / cap))
    return s


@triton.jit
def _losses(losses, lse, logits, target, xs, xc, ts, n, scale, cap, CAPPED: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * xs
    wanted = tl.load(target + row * ts)
    lane = tl.arange(0, TILE).to(tl.int64)
    top = tl.full([TILE], -float("inf"), tl.float32)
    total = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(logits + at * xc, mask=at < n, other=0.0).to(tl.float32)
        v = tl.where(at < n, _logit(v, scale, cap, CAPPED), -float("inf"))
        new = tl.where((v != v) | (v > top), v, top)  # noqa: PLR0124 - true of a NaN
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.exp(v - base)
        top = new
    highest = tl.max(top, axis=0)
    rest = tl.where(highest == -float("inf"), 0.0, highest)
    logarithm = tl.log(tl.sum(total * tl.exp(top - rest), axis=0))
    tl.store(lse + 2 * row, rest)
    tl.store(lse + 2 * row + 1, logarithm)
    counted = (wanted >= 0) & (wanted < n)
    own = _logit(tl.load(logits + wanted * xc, mask=counted, other=0.0).to(tl.float32), scale, cap, CAPPED)
    tl.store(losses + row, tl.where(wanted == -100, 0.0, tl.where(counted, rest - own + logarithm, float("nan"))))


@triton.jit
def _gradient(out, lse, logits, target, g, xs, xc, ts, gs, n, scale, cap, CAPPED: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    wanted = tl.load(target + row * ts)
    at = tl.program_id(1) * TILE + tl.arange(0, TILE).to(tl.int64)
    v = tl.load(logits + row * xs + at * xc, mask=at < n, other=0.0).to(tl.float32)
    up = tl.load(g + row * gs).to(tl.float32) * scale
    p = tl.exp(_logit(v, scale, cap, CAPPED) - tl.load(lse + 2 * row) - tl.load(lse + 2 * row + 1))
    p = (p - tl.where(at == wanted, 1.0, 0.0)) * up
    if CAPPED:
        t = _tanh(v / cap)
        p *= (1.0 - t) * (1.0 + t)
    tl.store(out + row * n + at, tl.where(wanted == -100, 0.0, p), mask=at < n)


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, scale, cap):
        rows, n = logits.shape
        losses = torch.empty(rows, dtype=logits.dtype, device=logits.device)
        lse = torch.empty(rows, 2, dtype=torch.float32, device=logits.device)
        ctx.options = n, scale, cap, bool(cap), min(TILE, triton.next_power_of_2(n))
        _losses[(rows,)](losses, lse, logits, target, *logits.stride(), *target.stride(), *ctx.options)
        ctx.save_for_backward(logits, target, lse)
        return losses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        logits, target, lse = ctx.saved_tensors
        rows, n = logits.shape
        out = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
        strides = *logits.stride(), *target.stride(), *grad.stride()
        grid = (rows, triton.cdiv(n, ctx.options[-1]))
        _gradient[grid](out, lse, logits, target, grad, *strides, *ctx.options)
        return out, None, None, None


def cross_entropy(logits, target, scale=1.0, softcap=0.0):
    """Cross-entropy of each row, of softcap * tanh(scale * logits / softcap) if there is a cap; a target of -100 has a loss of 0."""
    if not logits.numel():
        return torch.nn.functional.cross_entropy(logits, target, reduction="none")
    return _Loss.apply(logits, target, float(scale), float(softcap))


def _gradients(x, target, scale, cap):
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    cross_entropy(given, target, scale, cap).sum().backward()
    s = exact * scale
    s = cap * torch.tanh(s / cap) if cap else s
    torch.nn.functional.cross_entropy(s, target, reduction="sum").backward()
    return given.grad, exact.grad


def demonstrate():
    torch.manual_seed(0)
    return _gradients(3 * torch.randn(3, 40), torch.tensor([1, 25, 7]), 0.5, 5.0)


def ordinary(dtype):
    for shape in ((4, 100), (3, 2500)):
        x, target = torch.randn(shape).to(dtype), torch.randint(0, shape[1], (shape[0],))
        target[0] = -100
        for scale, cap in ((1.0, 0.0), (0.5, 0.0), (1.0, 30.0)):
            s = x.double() * scale
            s = cap * torch.tanh(s / cap) if cap else s
            exact = torch.nn.functional.cross_entropy(s, target, reduction="none")
            yield f"{shape}", (cross_entropy(x, target, scale, cap), exact)
            yield f"gradient {shape}", _gradients(x, target, scale, cap)
