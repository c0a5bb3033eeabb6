"""Columns split over programs: one kernel leaves maxima and sums of parts in a workspace, a second combines and divides."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def partial_kernel(maxima, sums, x, stride_row, stride_col, n_cols, n_parts, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    cols = part * BLOCK + tl.arange(0, BLOCK)
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    tile = tl.load(x + offsets, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    maximum = tl.max(tile, axis=0)
    shift = tl.where(maximum == -float("inf"), 0.0, maximum)
    tl.store(maxima + row * n_parts + part, maximum)
    tl.store(sums + row * n_parts + part, tl.sum(tl.exp(tile - shift), axis=0))


@triton.jit
def combine_kernel(
    out, maxima, sums, x, stride_row, stride_col, n_cols, n_parts, PARTS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    parts = tl.arange(0, PARTS)
    inside = parts < n_parts
    maximum = tl.load(maxima + row * n_parts + parts, mask=inside, other=-float("inf"))
    total = tl.load(sums + row * n_parts + parts, mask=inside, other=0.0)
    largest = tl.max(maximum, axis=0)
    # Parts of -inf alone have the sum 0, so any finite factor does; 0 * NaN would spoil the row.
    total = tl.sum(tl.where(total == 0.0, 0.0, total * tl.exp(maximum - largest)), axis=0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    tile = tl.load(x + offsets, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    tl.store(out + row * n_cols + cols, tl.exp(tile - largest) / total, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        parts = triton.cdiv(n_cols, 1024)
        maxima = torch.empty((n_rows, parts), dtype=torch.float32, device=x.device)
        sums = torch.empty_like(maxima)
        grid = (n_rows, parts)
        partial_kernel[grid](maxima, sums, x, *x.stride(), n_cols, parts, 1024)
        arguments = (n_cols, parts, triton.next_power_of_2(parts), 1024)
        combine_kernel[grid](out, maxima, sums, x, *x.stride(), *arguments)
    return out
