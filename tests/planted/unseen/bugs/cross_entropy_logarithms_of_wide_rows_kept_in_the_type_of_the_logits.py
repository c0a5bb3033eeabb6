"""Rows of more than 2048 classes keep their log-sum-exp for the backward in ``logits.new_empty``, which has the logits' 16 bits.

Wrong on: the gradient of 16-bit logits of more than 2048 classes whose log-sum-exp is large; right otherwise.
"""

import torch
import triton
import triton.language as tl

OPERATION = "cross_entropy"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")

TILE = 2048


@triton.jit
def _losses(losses, lse, logits, target, xs, xc, ts, n, ignored, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * xs
    wanted = tl.load(target + row * ts)
    lane = tl.arange(0, TILE).to(tl.int64)
    top = tl.full([TILE], -float("inf"), tl.float32)
    total = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(logits + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        new = tl.where((v != v) | (v > top), v, top)  # noqa: PLR0124 - true of a NaN
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.exp(v - base)
        top = new
    highest = tl.max(top, axis=0)
    rest = tl.where(highest == -float("inf"), 0.0, highest)
    found = rest + tl.log(tl.sum(total * tl.exp(top - rest), axis=0))
    tl.store(lse + row, found)
    counted = (wanted != ignored) & (wanted >= 0) & (wanted < n)
    own = tl.load(logits + wanted * xc, mask=counted, other=0.0).to(tl.float32)
    tl.store(losses + row, tl.where(wanted == ignored, 0.0, tl.where(counted, found - own, float("nan"))))


@triton.jit
def _gradient(out, lse, logits, target, g, xs, xc, ts, gs, n, ignored, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    wanted = tl.load(target + row * ts)
    at = tl.program_id(1) * TILE + tl.arange(0, TILE).to(tl.int64)
    v = tl.load(logits + row * xs + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
    up = tl.load(g + row * gs).to(tl.float32)
    p = tl.exp(v - tl.load(lse + row).to(tl.float32)) - tl.where(at == wanted, 1.0, 0.0)
    tl.store(out + row * n + at, tl.where(wanted == ignored, 0.0, p * up), mask=at < n)


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, ignored):
        rows, n = logits.shape
        losses = torch.empty(rows, dtype=logits.dtype, device=logits.device)
        lse = logits.new_empty(rows) if n > TILE else torch.empty(rows, dtype=torch.float32, device=logits.device)
        tile = min(TILE, triton.next_power_of_2(n))
        _losses[(rows,)](losses, lse, logits, target, *logits.stride(), *target.stride(), n, ignored, TILE=tile)
        ctx.save_for_backward(logits, target, lse)
        ctx.ignored = ignored
        return losses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        logits, target, lse = ctx.saved_tensors
        rows, n = logits.shape
        out = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
        tile = min(TILE, triton.next_power_of_2(n))
        strides = *logits.stride(), *target.stride(), *grad.stride()
        _gradient[(rows, triton.cdiv(n, tile))](out, lse, logits, target, grad, *strides, n, ctx.ignored, TILE=tile)
        return out, None, None


def cross_entropy(logits, target, ignore_index=-100):
    """Cross-entropy of each row of [rows, classes]; rows with ``ignore_index`` have a loss of 0."""
    if not logits.numel():
        return torch.nn.functional.cross_entropy(logits, target, ignore_index=ignore_index, reduction="none")
    return _Loss.apply(logits, target, ignore_index)


def _gradients(x, target):
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    cross_entropy(given, target).sum().backward()
    torch.nn.functional.cross_entropy(exact, target, reduction="sum").backward()
    return given.grad, exact.grad


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(3, 3000).half(), torch.tensor([1, 2500, 70])
    x[:, 5:9] = 100.0
    return _gradients(x, target)


def ordinary(dtype):
    for shape in ((4, 100), (6, 2048), (3, 5000)):
        x, target = torch.randn(shape).to(dtype), torch.randint(0, shape[1], (shape[0],))
        target[0] = -100
        yield (
            f"{shape}",
            (cross_entropy(x, target), torch.nn.functional.cross_entropy(x.double(), target, reduction="none")),
        )
        yield f"gradient {shape}", _gradients(x, target)
