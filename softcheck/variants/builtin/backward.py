"""The backwards of softmax and log-softmax: torch's own, one block per row, and two passes over tiles."""

from collections.abc import Callable
from typing import Any

import torch
import triton.language as tl

from softcheck.variants.builtin._common import block_and_warps, compute_type, jit, new_output
from softcheck.variants.builtin.declarations import declared
from softcheck.variants.builtin.online import tile_and_warps


@declared("torch_softmax_backward")
def torch_softmax_backward(grad: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of each row's logits, shape [rows, columns], for an output ``y`` and its gradient."""
    dx: torch.Tensor = torch.ops.aten._softmax_backward_data(grad, y, -1, y.dtype)  # noqa: SLF001 - the operator's name
    return dx


@declared("torch_log_softmax_backward")
def torch_log_softmax_backward(grad: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of each row's logits, shape [rows, columns], for an output ``y`` and its gradient."""
    dx: torch.Tensor = torch.ops.aten._log_softmax_backward_data(grad, y, -1, y.dtype)  # noqa: SLF001 - as above
    return dx


@jit
def _one_block_kernel(
    dx, grad, y, strides, columns, LOGARITHM: tl.constexpr, BLOCK: tl.constexpr, COMPUTE: tl.constexpr
):
    grad_row_stride, grad_column_stride, y_row_stride, y_column_stride = strides
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    g = tl.load(grad + row * grad_row_stride + column * grad_column_stride, mask=inside, other=0.0).to(COMPUTE)
    of_row = y + row * y_row_stride + column * y_column_stride
    if LOGARITHM:
        probability = tl.exp(tl.load(of_row, mask=inside, other=-float("inf")).to(COMPUTE))
        found = g - probability * tl.sum(g, axis=0)
    else:
        probability = tl.load(of_row, mask=inside, other=0.0).to(COMPUTE)
        found = probability * (g - tl.sum(probability * g, axis=0))
    tl.store(dx + row * columns + column, found, mask=inside)


@jit
def _two_pass_kernel(
    dx, grad, y, strides, columns, LOGARITHM: tl.constexpr, BLOCK: tl.constexpr, COMPUTE: tl.constexpr
):
    grad_row_stride, grad_column_stride, y_row_stride, y_column_stride = strides
    row = tl.program_id(0).to(tl.int64)
    grad += row * grad_row_stride
    y += row * y_row_stride
    lane = tl.arange(0, BLOCK).to(tl.int64)
    sums = tl.zeros([BLOCK], COMPUTE)
    for start in range(0, columns, BLOCK):
        column = start + lane
        g = tl.load(grad + column * grad_column_stride, mask=column < columns, other=0.0).to(COMPUTE)
        if LOGARITHM:
            sums += g
        else:
            sums += g * tl.load(y + column * y_column_stride, mask=column < columns, other=0.0).to(COMPUTE)
    total = tl.sum(sums, axis=0)
    for start in range(0, columns, BLOCK):
        column = start + lane
        inside = column < columns
        g = tl.load(grad + column * grad_column_stride, mask=inside, other=0.0).to(COMPUTE)
        output = tl.load(y + column * y_column_stride, mask=inside, other=0.0).to(COMPUTE)
        found = g - tl.exp(output) * total if LOGARITHM else output * (g - total)
        tl.store(dx + row * columns + column, found, mask=inside)


def _launched(
    kernel: Any, tile: Callable[[int], tuple[int, int]], grad: torch.Tensor, y: torch.Tensor, *, logarithm: bool
) -> torch.Tensor:
    dx = new_output(y)
    if dx.numel():
        rows, columns = y.shape
        block, warps = tile(columns)
        strides = (*grad.stride(), *y.stride())
        kernel[(rows,)](dx, grad, y, strides, columns, logarithm, block, compute_type(y), num_warps=warps)
    return dx


@declared("softmax_backward_one_block")
def softmax_backward_one_block(grad: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of each row's logits, shape [rows, columns], for an output ``y`` and its gradient."""
    return _launched(_one_block_kernel, block_and_warps, grad, y, logarithm=False)


@declared("log_softmax_backward_one_block")
def log_softmax_backward_one_block(grad: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of each row's logits, shape [rows, columns], for an output ``y`` and its gradient."""
    return _launched(_one_block_kernel, block_and_warps, grad, y, logarithm=True)


@declared("softmax_backward_two_pass")
def softmax_backward_two_pass(grad: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of each row's logits, shape [rows, columns], for an output ``y`` and its gradient."""
    return _launched(_two_pass_kernel, tile_and_warps, grad, y, logarithm=False)


@declared("log_softmax_backward_two_pass")
def log_softmax_backward_two_pass(grad: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of each row's logits, shape [rows, columns], for an output ``y`` and its gradient."""
    return _launched(_two_pass_kernel, tile_and_warps, grad, y, logarithm=True)
