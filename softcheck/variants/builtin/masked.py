"""Softmax with a scale and a mask in one block, with a causal mask in tiles, and torch's own that gives zeros to hidden rows."""

import torch
import triton.language as tl

from softcheck.variants.builtin._common import block_and_warps, compute_type, jit, new_output
from softcheck.variants.builtin.declarations import declared
from softcheck.variants.builtin.online import running_sum, tile_and_warps


@jit
def _masked_kernel(output, x, mask, strides, columns, scale, BLOCK: tl.constexpr):
    row_stride, column_stride, mask_row_stride, mask_column_stride = strides
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    hidden = tl.load(mask + row * mask_row_stride + column * mask_column_stride, mask=inside, other=1)
    seen = inside & (hidden == 0)
    # What is hidden is not read, so that a NaN there is none of the row's.
    logits = tl.load(x + row * row_stride + column * column_stride, mask=seen, other=-float("inf")).to(tl.float32)
    logits = logits * scale
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * columns + column, exponentials / tl.sum(exponentials, axis=0), mask=inside)


@declared("scaled_masked_one_block")
def scaled_masked_one_block(x: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    """Softmax of ``scale * x`` in each row, shape [rows, columns], without the columns where ``mask`` is True."""
    output = new_output(x)
    if output.numel():
        rows, columns = x.shape
        block, warps = block_and_warps(columns)
        strides = (*x.stride(), *mask.stride())
        _masked_kernel[(rows,)](output, x, mask.view(torch.int8), strides, columns, scale, block, num_warps=warps)
    return output


@jit
def _causal_kernel(output, x, strides, queries, keys, shift, BLOCK: tl.constexpr, COMPUTE: tl.constexpr):
    matrix_stride, row_stride, column_stride = strides
    row = tl.program_id(0).to(tl.int64)
    query = row % queries
    input_row = x + (row // queries) * matrix_stride + query * row_stride
    seen = tl.minimum(tl.maximum(query + shift + 1, 0), keys)
    # Tiles behind the diagonal are not read.
    maximum, total = running_sum(input_row, column_stride, seen, BLOCK, COMPUTE)
    lane = tl.arange(0, BLOCK)
    for start in range(0, keys, BLOCK):
        column = start + lane
        pointers = input_row + column.to(tl.int64) * column_stride
        logits = tl.load(pointers, mask=column < seen, other=-float("inf")).to(COMPUTE)
        # A query that sees nothing but -inf, or nothing at all, has a sum of 0.
        found = tl.exp(logits - maximum) / total
        found = tl.where((total == 0.0) | (column >= seen), 0.0, found)
        tl.store(output + row * keys + column, found, mask=column < keys)


def _causal(x: torch.Tensor, shift: int) -> torch.Tensor:
    output = new_output(x)
    if output.numel():
        matrices, queries, keys = x.shape
        block, warps = tile_and_warps(keys)
        sizes = (queries, keys, shift, block, compute_type(x))
        _causal_kernel[(matrices * queries,)](output, x, x.stride(), *sizes, num_warps=warps)
    return output


@declared("causal_online")
def causal_online(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each query's keys up to its own number, shape [matrices, queries, keys]; 0 where it sees none."""
    return _causal(x, 0)


@declared("causal_online_bottom_right")
def causal_online_bottom_right(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each query's keys up to ``keys - queries`` more than its number, shape [matrices, queries, keys]."""
    return _causal(x, x.shape[2] - x.shape[1])


@declared("torch_safe_softmax")
def torch_safe_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    found: torch.Tensor = torch._safe_softmax(x, -1)  # noqa: SLF001 - the operator's name
    return found
