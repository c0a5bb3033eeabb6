"""One cross-entropy with every option at once, and its gradient; and the same with one option wrong where it meets another."""

import torch
import triton
import triton.language as tl


@triton.jit
def loss_kernel(
    losses,
    squares,
    logarithms,
    x,
    target,
    weight,
    target_stride,
    weight_stride,
    row_stride,
    column_stride,
    columns,
    ignored,
    smoothing,
    cap,
    BLOCK: tl.constexpr,
    WEIGHTED: tl.constexpr,
    CAPPED: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    x += row * row_stride
    chosen = tl.load(target + row * target_stride)
    if chosen == ignored:
        tl.store(losses + row, 0.0)
        tl.store(squares + row, 0.0)
        tl.store(logarithms + row, 0.0)
        return
    maximum, total, weights, smooth, picked = -float("inf"), 0.0, 0.0, 0.0, float("nan")
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < columns
        logits = tl.load(x + column.to(tl.int64) * column_stride, mask=inside, other=0.0).to(tl.float32)
        if CAPPED:
            logits = cap * (2 * tl.sigmoid(2 * logits / cap) - 1)
        if WEIGHTED:
            by = tl.load(weight + column * weight_stride, mask=inside, other=0.0).to(tl.float32)
        else:
            by = tl.where(inside, 1.0, 0.0)
        if smoothing > 0:
            weights += tl.sum(by, axis=0)
            smooth += tl.sum(tl.where(inside, by * logits, 0.0), axis=0)
        if (chosen >= start) & (chosen < tl.minimum(start + BLOCK, columns)):
            picked = tl.sum(tl.where(column == chosen, logits, 0.0), axis=0)
        logits = tl.where(inside, logits, -float("inf"))
        larger = tl.maximum(maximum, tl.max(logits, axis=0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(logits - shift), axis=0)
        maximum = larger
    logarithm = maximum + tl.log(total)
    loss = (maximum - picked) + tl.log(total)
    if WEIGHTED:
        is_column = (chosen >= 0) & (chosen < columns)
        loss *= tl.load(weight + chosen * weight_stride, mask=is_column, other=float("nan")).to(tl.float32)
    if smoothing > 0:
        loss = (1 - smoothing) * loss + smoothing / columns * (weights * logarithm - smooth)
    tl.store(losses + row, loss)
    tl.store(squares + row, logarithm * logarithm)
    tl.store(logarithms + row, logarithm)


@triton.jit
def gradient_kernel(
    gradient,
    of_losses,
    of_squares,
    logarithms,
    x,
    target,
    weight,
    of_losses_stride,
    of_squares_stride,
    target_stride,
    weight_stride,
    row_stride,
    column_stride,
    columns,
    ignored,
    smoothing,
    cap,
    mean_weight,
    BLOCK: tl.constexpr,
    WEIGHTED: tl.constexpr,
    CAPPED: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    x += row * row_stride
    gradient += row * columns
    chosen = tl.load(target + row * target_stride)
    logarithm = tl.load(logarithms + row)
    of_loss = tl.load(of_losses + row * of_losses_stride).to(tl.float32)
    of_square = tl.load(of_squares + row * of_squares_stride).to(tl.float32)
    of_target = 1.0 - smoothing
    if WEIGHTED:
        is_column = (chosen >= 0) & (chosen < columns)
        of_target *= tl.load(weight + chosen * weight_stride, mask=is_column, other=0.0).to(tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < columns
        logits = tl.load(x + column.to(tl.int64) * column_stride, mask=inside, other=0.0).to(tl.float32)
        slope = 1.0
        if CAPPED:
            tanh = 2 * tl.sigmoid(2 * logits / cap) - 1
            logits, slope = cap * tanh, 1 - tanh * tanh
        by = smoothing / columns
        if WEIGHTED:
            by *= tl.load(weight + column * weight_stride, mask=inside, other=0.0).to(tl.float32)
        probability = tl.exp(logits - logarithm)
        less = by + tl.where(column == chosen, of_target, 0.0)
        found = of_loss * ((of_target + smoothing * mean_weight) * probability - less)
        found = (found + of_square * 2 * logarithm * probability) * slope
        tl.store(gradient + column, tl.where(chosen == ignored, 0.0, found), mask=inside)


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target, weight, ignored, smoothing, cap):
        rows, columns = x.shape
        losses, squares, logarithms = torch.empty(3, rows, dtype=torch.float32, device=x.device)
        weighing = target if weight is None else weight
        strides = (target.stride(0), weighing.stride(0), *x.stride())
        options = (columns, ignored, smoothing, cap or 1.0)
        flags = (64, weight is not None, bool(cap))
        if x.numel():
            loss_kernel[(rows,)](losses, squares, logarithms, x, target, weighing, *strides, *options, *flags)
        ctx.save_for_backward(x, target, weighing, logarithms)
        ctx.settings = (*options, 1.0 if weight is None else weight.float().mean().item()), flags
        return losses, squares

    @staticmethod
    def backward(ctx, of_losses, of_squares):
        x, target, weighing, logarithms = ctx.saved_tensors
        gradient = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        options, flags = ctx.settings
        if x.numel():
            strides = (of_losses.stride(0), of_squares.stride(0), target.stride(0), weighing.stride(0), *x.stride())
            given = (of_losses, of_squares, logarithms, x, target, weighing)
            gradient_kernel[(len(x),)](gradient, *given, *strides, *options, *flags)
        return gradient, None, None, None, None, None


def _terms(x, target, weight, ignore_index, label_smoothing, softcap):
    losses, squares = _Loss.apply(x, target, weight, ignore_index, label_smoothing, softcap)
    counts = target != ignore_index
    of_targets = counts.float()
    if weight is not None:
        is_column = counts & (target >= 0) & (target < x.shape[1])
        of_targets = torch.where(is_column, weight.float()[torch.where(is_column, target, 0)], 0.0)
    return losses, squares, counts, of_targets


def loss(x, target, weight=None, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0, reduction="none"):
    """Losses of [rows, columns] logits and int64 [rows] targets, float32 [rows], NaN for a target that is no column; or their mean or sum."""
    losses, squares, counts, of_targets = _terms(x, target, weight, ignore_index, label_smoothing, softcap)
    if reduction == "mean":
        return losses.sum() / of_targets.sum() + z_loss * squares.sum() / counts.sum()
    found = losses + z_loss * squares if z_loss else losses
    return found if reduction == "none" else found.sum()


def mean_of_squares_by_weights(
    x, target, weight=None, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0, reduction="none"
):
    """Wrong where weights, a z-loss and a mean meet: the squares are divided by the weights too."""
    losses, squares, _, of_targets = _terms(x, target, weight, ignore_index, label_smoothing, softcap)
    found = losses + z_loss * squares if z_loss else losses
    if reduction == "mean":
        return found.sum() / of_targets.sum()
    return found if reduction == "none" else found.sum()
