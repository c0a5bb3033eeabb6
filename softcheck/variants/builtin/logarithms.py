"""Log-softmax and log-sum-exp: torch's own, one block per row, and passes with a running maximum and sum."""

import torch
import triton.language as tl

from softcheck.variants.builtin._common import block_and_warps, by_rows, jit, new_row_output
from softcheck.variants.builtin.declarations import declared
from softcheck.variants.builtin.online import running_sum, tile_and_warps


@declared("torch_log_softmax")
def torch_log_softmax(x: torch.Tensor) -> torch.Tensor:
    """Log-softmax of each row, shape [rows, columns]."""
    return torch.log_softmax(x, dim=-1)


@declared("torch_logsumexp")
def torch_logsumexp(x: torch.Tensor) -> torch.Tensor:
    """Log-sum-exp of each row, shape [rows]."""
    return torch.logsumexp(x, dim=-1)


@jit
def _one_block_kernel(
    output, x, row_stride, column_stride, columns, OF_ROW: tl.constexpr, BLOCK: tl.constexpr, COMPUTE: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    pointers = x + row * row_stride + column.to(tl.int64) * column_stride
    logits = tl.load(pointers, mask=inside, other=-float("inf")).to(COMPUTE)
    maximum = tl.max(logits, axis=0)
    if OF_ROW:
        # A row of -inf alone sums to nothing, whose logarithm is -inf, about any finite shift.
        shift = tl.where(maximum == -float("inf"), 0.0, maximum)
        tl.store(output + row, shift + tl.log(tl.sum(tl.exp(logits - shift), axis=0)))
    else:
        below = logits - maximum
        logarithm = tl.log(tl.sum(tl.exp(below), axis=0))
        tl.store(output + row * columns + column, below - logarithm, mask=inside)


@declared("log_softmax_one_block")
def log_softmax_one_block(x: torch.Tensor) -> torch.Tensor:
    """Log-softmax of each row, shape [rows, columns]."""
    return by_rows(_one_block_kernel, x, block_and_warps, False)


@declared("logsumexp_one_block")
def logsumexp_one_block(x: torch.Tensor) -> torch.Tensor:
    """Log-sum-exp of each row, shape [rows]."""
    return by_rows(_one_block_kernel, x, block_and_warps, True, output=new_row_output(x))


@jit
def _online_kernel(
    output, x, row_stride, column_stride, columns, OF_ROW: tl.constexpr, BLOCK: tl.constexpr, COMPUTE: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    maximum, total = running_sum(x + row * row_stride, column_stride, columns, BLOCK, COMPUTE)
    logarithm = tl.log(total)
    if OF_ROW:
        tl.store(output + row, maximum + logarithm)
    else:
        lane = tl.arange(0, BLOCK)
        for start in range(0, columns, BLOCK):
            column = start + lane
            pointers = x + row * row_stride + column.to(tl.int64) * column_stride
            logits = tl.load(pointers, mask=column < columns, other=-float("inf")).to(COMPUTE)
            tl.store(output + row * columns + column, logits - maximum - logarithm, mask=column < columns)


@declared("log_softmax_online")
def log_softmax_online(x: torch.Tensor) -> torch.Tensor:
    """Log-softmax of each row, shape [rows, columns]."""
    return by_rows(_online_kernel, x, tile_and_warps, False)


@declared("logsumexp_online")
def logsumexp_online(x: torch.Tensor) -> torch.Tensor:
    """Log-sum-exp of each row, shape [rows]."""
    return by_rows(_online_kernel, x, tile_and_warps, True, output=new_row_output(x))
