"""Triton kernels that are right on every element of an ordinary input, and wrong in memory beside it."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(
    output,
    x,
    row_stride,
    rows,
    columns,
    BLOCK: tl.constexpr,
    READ: tl.constexpr,
    STORED: tl.constexpr,
    ROWS: tl.constexpr,
):
    # READ and STORED are columns more than there are; ROWS rows share one maximum.
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns + READ)
    logits = tl.load(x + row * row_stride + column, mask=inside, other=-float("inf")).to(tl.float32)
    # What is read beyond the row enters the sum by a weight of 0, as a mask by multiplication does.
    weight = tl.where(column < columns, 1.0, 0.0)
    maximum = tl.max(tl.max(tl.where(column < columns, logits, -float("inf")), axis=1), axis=0)
    exponentials = tl.exp(logits - maximum)
    weighted = tl.where(inside, exponentials * weight, 0.0)
    total = tl.sum(weighted, axis=1)[:, None]
    stored = (row < rows) & (column < columns + STORED)
    tl.store(output + row * columns + column, weighted / total, mask=stored)


def _launch(x, read=0, stored=0, rows_together=1):
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        block = triton.next_power_of_2(columns + 1)
        grid = (triton.cdiv(rows, rows_together),)
        _kernel[grid](output, x.contiguous(), columns, rows, columns, block, read, stored, rows_together)
    return output


def right(x):
    """No fault: the control."""
    return _launch(x)


def reads_one_beyond(x):
    """The load's mask is off by one: harmless until the element beyond the row is NaN or infinite."""
    return _launch(x, read=1)


def stores_one_beyond(x):
    """The store's mask is off by one: the next row's program repairs it, but nothing follows the last row."""
    return _launch(x, stored=1)


def shares_a_maximum(x):
    """Two rows share one maximum: right unless they are far apart."""
    return _launch(x, rows_together=2)


@triton.jit
def _strided(output, x, row_stride, column_stride, stored_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    logits = tl.load(x + row * row_stride + column * column_stride, mask=inside, other=-float("inf")).to(tl.float32)
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * stored_stride + column, exponentials / tl.sum(exponentials, axis=0), mask=inside)


def stores_by_the_strides_of_the_input(x):
    """Rows of the output are stored as far apart as the input's, and copied to their places: all right but the memory beyond."""
    rows, columns = x.shape
    output = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
    if output.numel():
        apart = max(columns, x.stride(0))
        _strided[(rows,)](output, x, x.stride(0), x.stride(1), apart, columns, triton.next_power_of_2(columns))
        if apart != columns:
            _strided[(rows,)](output, x, x.stride(0), x.stride(1), columns, columns, triton.next_power_of_2(columns))
    return output


@triton.jit
def _add(sums, x, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    logits = tl.load(x + tl.program_id(0) * columns + column, mask=column < columns, other=-float("inf"))
    tl.atomic_add(sums + tl.program_id(0), tl.sum(tl.exp(logits.to(tl.float32)), axis=0))


def forgets_to_clear(x):
    """Sums into a workspace that was not cleared: right where fresh memory happens to be 0."""
    rows, columns = x.shape
    sums = torch.empty(rows, dtype=torch.float32, device=x.device)
    packed = x.contiguous()
    if x.numel():
        _add[(rows,)](sums, packed, columns, triton.next_power_of_2(columns))
    return (packed.float().exp() / sums[:, None]).to(x.dtype)
