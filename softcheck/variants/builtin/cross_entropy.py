"""Cross-entropy per row: torch's own, one pass with its gradient, chunks of long rows, and one that leaves the gradient in its input's place."""

from typing import Any

import torch
import triton
import triton.language as tl

from softcheck.variants.builtin._common import compute_type, jit, new_output, new_row_output
from softcheck.variants.builtin.declarations import IGNORED, declared
from softcheck.variants.builtin.online import running_sum, tile_and_warps

_LARGEST_CHUNK = 2**16
"""Columns of the largest chunk of a row that has a program of its own."""


@declared("torch_cross_entropy")
def torch_cross_entropy(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each row of [rows, columns] and its target, int64 [rows]; shape [rows]."""
    return torch.nn.functional.cross_entropy(x, target, reduction="none", ignore_index=IGNORED)


@jit
def _forward_kernel(loss, logarithm, x, target, strides, columns, ignored, BLOCK: tl.constexpr, COMPUTE: tl.constexpr):
    target_stride, row_stride, column_stride = strides
    row = tl.program_id(0).to(tl.int64)
    chosen = tl.load(target + row * target_stride)
    if chosen == ignored:
        tl.store(loss + row, 0.0)
        return
    input_row = x + row * row_stride
    maximum, total = running_sum(input_row, column_stride, columns, BLOCK, COMPUTE)
    is_column = (chosen >= 0) & (chosen < columns)
    at_target = tl.load(input_row + chosen * column_stride, mask=is_column, other=float("nan")).to(COMPUTE)
    tl.store(logarithm + row, maximum + tl.log(total))
    # The maximum less the target is nearly exact where both are large.
    tl.store(loss + row, (maximum - at_target) + tl.log(total))


@jit
def _backward_kernel(
    gradient, of_loss, logarithm, x, target, strides, columns, ignored, BLOCK: tl.constexpr, COMPUTE: tl.constexpr
):
    of_loss_stride, target_stride, row_stride, column_stride = strides
    row = tl.program_id(0).to(tl.int64)
    chosen = tl.load(target + row * target_stride)
    scale = tl.where(chosen == ignored, 0.0, tl.load(of_loss + row * of_loss_stride).to(COMPUTE))
    normalizer = tl.where(chosen == ignored, 0.0, tl.load(logarithm + row))
    lane = tl.arange(0, BLOCK)
    for start in range(0, columns, BLOCK):
        column = start + lane
        pointers = x + row * row_stride + column.to(tl.int64) * column_stride
        logits = tl.load(pointers, mask=column < columns, other=-float("inf")).to(COMPUTE)
        probability = tl.exp(logits - normalizer)
        difference = tl.where(column == chosen, probability - 1.0, probability)
        # An ignored row's probabilities are of no normalizer and may be infinite.
        found = tl.where(chosen == ignored, 0.0, scale * difference)
        tl.store(gradient + row * columns + column, found, mask=column < columns)


class _OnlineCrossEntropy(torch.autograd.Function):
    """Keeps the logarithm of each row's sum, so that the backward reads the logits once."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The loss of each row of [rows, columns] and its target, int64 [rows]; shape [rows]."""
        loss, logarithm = new_row_output(x), new_row_output(x)
        if x.numel():
            rows, columns = x.shape
            block, warps = tile_and_warps(columns)
            arguments = (x, target, (target.stride(0), *x.stride()), columns, IGNORED, block, compute_type(x))
            _forward_kernel[(rows,)](loss, logarithm, *arguments, num_warps=warps)
        ctx.save_for_backward(x, target, logarithm)
        return loss

    @staticmethod
    def backward(ctx: Any, of_loss: torch.Tensor) -> tuple[torch.Tensor, None]:
        """The gradient of the logits, shape [rows, columns], from the logarithms of rows' sums; none of the targets."""
        x, target, logarithm = ctx.saved_tensors
        gradient = new_output(x)
        if x.numel():
            rows, columns = x.shape
            block, warps = tile_and_warps(columns)
            strides = (of_loss.stride(0), target.stride(0), *x.stride())
            arguments = (x, target, strides, columns, IGNORED, block, compute_type(x))
            _backward_kernel[(rows,)](gradient, of_loss, logarithm, *arguments, num_warps=warps)
        return gradient, None


@declared("cross_entropy_online")
def cross_entropy_online(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each row of [rows, columns] and its target, int64 [rows]; 0 for a target of -100. Shape [rows]."""
    loss: torch.Tensor = _OnlineCrossEntropy.apply(x, target)  # type: ignore[no-untyped-call]
    return loss


@jit
def _chunk_kernel(
    maxima, totals, x, row_stride, column_stride, columns, chunk, BLOCK: tl.constexpr, COMPUTE: tl.constexpr
):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    first = part * chunk
    start = x + row * row_stride + first.to(tl.int64) * column_stride
    maximum, total = running_sum(start, column_stride, tl.minimum(columns - first, chunk), BLOCK, COMPUTE)
    place = row * tl.num_programs(1) + part
    tl.store(maxima + place, maximum)
    tl.store(totals + place, total)


@jit
def _merge_kernel(
    loss, logarithm, maxima, totals, x, target, strides, sizes, ignored, PARTS: tl.constexpr, COMPUTE: tl.constexpr
):
    target_stride, row_stride, column_stride = strides
    columns, parts = sizes
    row = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, PARTS)
    of_parts = tl.load(maxima + row * parts + part, mask=part < parts, other=-float("inf"))
    maximum = tl.max(of_parts, axis=0)
    shift = tl.where(maximum == -float("inf"), 0.0, maximum)
    weighed = tl.load(totals + row * parts + part, mask=part < parts, other=0.0) * tl.exp(of_parts - shift)
    total = tl.sum(weighed, axis=0)
    tl.store(logarithm + row, maximum + tl.log(total))
    chosen = tl.load(target + row * target_stride)
    counts = chosen != ignored
    is_column = (chosen >= 0) & (chosen < columns)
    pointer = x + row * row_stride + chosen * column_stride
    at_target = tl.load(pointer, mask=is_column, other=float("nan")).to(COMPUTE)
    tl.store(loss + row, tl.where(counts, (maximum - at_target) + tl.log(total), 0.0))


class _ChunkedCrossEntropy(_OnlineCrossEntropy):
    """Chunks of each row by programs of their own, whose maxima and sums another kernel merges."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        loss, logarithm = new_row_output(x), new_row_output(x)
        if x.numel():
            rows, columns = x.shape
            # Short rows have two chunks too.
            chunk = min(max(16, triton.next_power_of_2(columns) // 2), _LARGEST_CHUNK)
            parts = triton.cdiv(columns, chunk)
            maxima, totals = (loss.new_empty(rows, parts) for _ in range(2))
            block, warps = tile_and_warps(chunk)
            kind = compute_type(x)
            _chunk_kernel[(rows, parts)](maxima, totals, x, *x.stride(), columns, chunk, block, kind, num_warps=warps)
            arguments = (maxima, totals, x, target, (target.stride(0), *x.stride()), (columns, parts), IGNORED)
            _merge_kernel[(rows,)](loss, logarithm, *arguments, triton.next_power_of_2(parts), kind)
        ctx.save_for_backward(x, target, logarithm)
        return loss


@declared("cross_entropy_chunked")
def cross_entropy_chunked(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each row of [rows, columns] and its target, int64 [rows]; 0 for a target of -100. Shape [rows]."""
    loss: torch.Tensor = _ChunkedCrossEntropy.apply(x, target)  # type: ignore[no-untyped-call]
    return loss


@jit
def _in_place_kernel(loss, x, target, strides, columns, ignored, BLOCK: tl.constexpr, COMPUTE: tl.constexpr):
    target_stride, row_stride, column_stride = strides
    row = tl.program_id(0).to(tl.int64)
    input_row = x + row * row_stride
    chosen = tl.load(target + row * target_stride)
    counts = chosen != ignored
    maximum, total = running_sum(input_row, column_stride, columns, BLOCK, COMPUTE)
    is_column = (chosen >= 0) & (chosen < columns)
    at_target = tl.load(input_row + chosen * column_stride, mask=is_column, other=float("nan")).to(COMPUTE)
    # Every warp loads the target's logit for itself: none may write its gradient before all have.
    tl.debug_barrier()
    lane = tl.arange(0, BLOCK)
    for start in range(0, columns, BLOCK):
        column = start + lane
        pointers = input_row + column.to(tl.int64) * column_stride
        logits = tl.load(pointers, mask=column < columns, other=-float("inf")).to(COMPUTE)
        probability = tl.exp(logits - maximum) / total
        gradient = tl.where(column == chosen, probability - 1.0, probability)
        tl.store(pointers, tl.where(counts, gradient, 0.0), mask=column < columns)
    tl.store(loss + row, tl.where(counts, (maximum - at_target) + tl.log(total), 0.0))


@declared("cross_entropy_in_place")
def cross_entropy_in_place(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each row of [rows, columns] and its target, int64 [rows]; ``x`` then holds the gradient. Shape [rows]."""
    loss = new_row_output(x)
    if x.numel():
        rows, columns = x.shape
        block, warps = tile_and_warps(columns)
        arguments = (target, (target.stride(0), *x.stride()), columns, IGNORED, block, compute_type(x))
        _in_place_kernel[(rows,)](loss, x, *arguments, num_warps=warps)
    return loss
