"""Only the answer is kept for the backward, and a capped logit is the answer plus the log-sum-exp: it has the answer's rounding, and 1 - (c / cap)^2 loses its digits.

Wrong on: the gradient with a soft cap and logits near or beyond it, in 16 bits; near enough where the cap is wide, and right without one.
"""

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
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
def _logits(x, at, xc, n, cap, CAPPED: tl.constexpr):
    v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
    if CAPPED:
        v = tl.where(v == -float("inf"), v, cap * _tanh(v / cap))
    return v


@triton.jit
def _forward(y, lse, x, xs, xc, n, cap, CAPPED: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    x += row * xs
    peak = tl.full([TILE], -float("inf"), tl.float32)
    mass = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        v = _logits(x, start + lane, xc, n, cap, CAPPED)
        larger = tl.where((v != v) | (v > peak), v, peak)  # noqa: PLR0124 - true of a NaN
        base = tl.where(larger == -float("inf"), 0.0, larger)
        mass = mass * tl.exp(peak - base) + tl.exp(v - base)
        peak = larger
    highest = tl.max(peak, axis=0)
    rest = tl.where(highest == -float("inf"), 0.0, highest)
    total = tl.sum(mass * tl.exp(peak - rest), axis=0)
    logarithm = tl.log(total)
    # NaN for a row that is hidden whole, as torch has it.
    rest += tl.where(total == 0.0, float("nan"), 0.0)
    tl.store(lse + row, rest + logarithm)
    for start in range(0, n, TILE):
        at = start + lane
        v = _logits(x, at, xc, n, cap, CAPPED)
        tl.store(y + row * n + at, v - rest - logarithm, mask=at < n)


@triton.jit
def _backward(out, y, lse, g, gs, gc, n, cap, CAPPED: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    y += row * n
    total = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        total += tl.load(g + row * gs + at * gc, mask=at < n, other=0.0).to(tl.float32)
    whole = tl.sum(total, axis=0)
    logarithm = tl.load(lse + row)
    for start in range(0, n, TILE):
        at = start + lane
        up = tl.load(g + row * gs + at * gc, mask=at < n, other=0.0).to(tl.float32)
        answer = tl.load(y + at, mask=at < n, other=-float("inf")).to(tl.float32)
        found = up - tl.exp(answer) * whole
        if CAPPED:
            t = (answer + logarithm) / cap
            found *= tl.where(answer == -float("inf"), 0.0, (1.0 - t) * (1.0 + t))
        tl.store(out + row * n + at, found, mask=at < n)


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cap):
        rows, n = x.shape
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        lse = torch.empty(rows, dtype=torch.float32, device=x.device)
        ctx.options = n, cap or 1.0, bool(cap), min(TILE, triton.next_power_of_2(n))
        _forward[(rows,)](y, lse, x, *x.stride(), *ctx.options)
        ctx.save_for_backward(y, lse)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        y, lse = ctx.saved_tensors
        out = torch.empty(y.shape, dtype=y.dtype, device=y.device)
        _backward[(y.shape[0],)](out, y, lse, g, *g.stride(), *ctx.options)
        return out, None


def log_softmax(x, softcap=0.0):
    """Log-softmax of each row of [rows, columns], of softcap * tanh(x / softcap) where there is a cap; -inf stays hidden."""
    if not x.numel():
        return torch.log_softmax(x, dim=-1)
    return _LogSoftmax.apply(x, float(softcap))


def _both(x, cap):
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    y = log_softmax(given, cap)
    right = torch.log_softmax(cap * torch.tanh(exact / cap) if cap else exact, -1)
    above = torch.randn(x.shape).to(x.dtype)
    y.backward(above)
    right.backward(above.double())
    return (y, right), (given.grad, exact.grad)


def demonstrate():
    torch.manual_seed(0)
    return _both((4 * torch.randn(3, 40)).half(), 3.0)[1]


def ordinary(dtype):
    for shape, cap in (((4, 1000), 0.0), ((3, 2500), 0.0), ((4, 100), 30.0)):
        x, above = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
        given, wide = x.clone().requires_grad_(), x.double()
        y = log_softmax(given, cap)
        y.backward(above)
        yield f"{shape} {cap}", (y, torch.log_softmax(cap * torch.tanh(wide / cap) if cap else wide, -1))
        # As torch has it, the probability is that of the rounded answer.
        exact = above.double() - y.detach().double().exp() * above.double().sum(-1, keepdim=True)
        yield f"gradient {shape} {cap}", (given.grad, exact * (1 - torch.tanh(wide / cap) ** 2 if cap else 1))
