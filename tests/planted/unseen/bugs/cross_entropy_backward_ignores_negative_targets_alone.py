"""The backward asks for ignored rows by ``target >= 0``, where the forward asks ``target != ignore_index``.

Wrong on: gradients where ignore_index is a class, as the padding token 0, that stands among the targets; right otherwise.
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
def _forward(losses, lses, logits, target, row_stride, column_stride, classes, ignore_index, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    t = tl.load(target + row)
    top = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, classes, TILE):
        at = start + tl.arange(0, TILE)
        v = tl.load(
            logits + row * row_stride + at.to(tl.int64) * column_stride, mask=at < classes, other=-float("inf")
        ).to(tl.float32)
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    log = tl.log(total)
    tl.store(lses + 2 * row, top)
    tl.store(lses + 2 * row + 1, log)
    counted = t != ignore_index
    chosen = tl.load(
        logits + row * row_stride + t * column_stride, mask=counted & (t >= 0) & (t < classes), other=float("nan")
    )
    tl.store(losses + row, tl.where(counted, log - (chosen.to(tl.float32) - top), 0.0))


@triton.jit
def _backward(
    grads,
    logits,
    target,
    lses,
    upstream,
    upstream_stride,
    row_stride,
    column_stride,
    classes,
    tiles,
    TILE: tl.constexpr,
):
    pid = tl.program_id(0)
    row = (pid // tiles).to(tl.int64)
    at = (pid % tiles) * TILE + tl.arange(0, TILE)
    t = tl.load(target + row)
    v = tl.load(logits + row * row_stride + at.to(tl.int64) * column_stride, mask=at < classes, other=-float("inf")).to(
        tl.float32
    )
    top, log = tl.load(lses + 2 * row), tl.load(lses + 2 * row + 1)
    g = tl.load(upstream + row * upstream_stride).to(tl.float32)
    d = tl.exp(v - top - log) - tl.where(at == t, 1.0, 0.0)
    tl.store(grads + row * classes + at, tl.where(t >= 0, d * g, 0.0), mask=at < classes)


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, ignore_index):
        rows, classes = logits.shape
        losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
        lses = torch.empty(rows, 2, dtype=torch.float32, device=logits.device)
        tile = min(2048, triton.next_power_of_2(classes))
        _forward[(rows,)](losses, lses, logits, target, *logits.stride(), classes, ignore_index, TILE=tile)
        ctx.save_for_backward(logits, target, lses)
        ctx.tile = tile
        return losses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, upstream):
        logits, target, lses = ctx.saved_tensors
        rows, classes = logits.shape
        grads = torch.empty(rows, classes, dtype=logits.dtype, device=logits.device)
        tiles = triton.cdiv(classes, ctx.tile)
        _backward[(rows * tiles,)](
            grads, logits, target, lses, upstream, upstream.stride(0), *logits.stride(), classes, tiles, TILE=ctx.tile
        )
        return grads, None, None


def cross_entropy(logits, target, ignore_index=-100, reduction="none"):
    """Cross-entropy of logits [rows, classes] by Triton, forward and backward; target is int64 [rows]."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"no such reduction: {reduction!r}")
    if not logits.numel():
        return torch.nn.functional.cross_entropy(logits, target, ignore_index=ignore_index, reduction=reduction)
    target = target.contiguous()
    losses = _Losses.apply(logits, target, ignore_index)
    if reduction == "mean":
        losses = losses.sum() / (target != ignore_index).sum()
    elif reduction == "sum":
        losses = losses.sum()
    return losses.to(logits.dtype)


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(6, 10, requires_grad=True), torch.tensor([0, 1, 2, 0, 5, 9])
    cross_entropy(x, target, ignore_index=0, reduction="mean").backward()
    exact = x.detach().double().requires_grad_()
    torch.nn.functional.cross_entropy(exact, target, ignore_index=0).backward()
    return x.grad, exact.grad
