"""Partial sums are added to a workspace with atomics, and the workspace is ``empty``, not ``zeros``.

From experience; fresh memory is often zero, so the first test passes.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output",)
SHOWN_BY = ("probe/unwritten",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def sum_kernel(sums, maxima, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    maximum = tl.load(maxima + row)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    tile = tl.load(x + offsets, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    tl.atomic_add(sums + row, tl.sum(tl.exp(tile - maximum), axis=0))


@triton.jit
def divide_kernel(out, sums, maxima, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    tile = tl.load(x + offsets, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    result = tl.exp(tile - tl.load(maxima + row)) / tl.load(sums + row)
    tl.store(out + row * n_cols + cols, result, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        maxima = x.amax(dim=-1).float()
        sums = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        grid = (n_rows, triton.cdiv(n_cols, 1024))
        sum_kernel[grid](sums, maxima, x, *x.stride(), n_cols, 1024)
        divide_kernel[grid](out, sums, maxima, x, *x.stride(), n_cols, 1024)
    return out
