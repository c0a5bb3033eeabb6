"""Partial sums meet in float32 atomics, whose order changes from run to run, and so do the last bits of every output.

Report: flagos-ai/FlagGems#4995 (nondeterministic). Each result alone is within the bounds.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/determinism",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)


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
        sums = torch.zeros(n_rows, dtype=torch.float32, device=x.device)
        block = 32
        if triton.cdiv(n_cols, block) > 65535:
            block = 1024
        grid = (n_rows, triton.cdiv(n_cols, block))
        sum_kernel[grid](sums, maxima, x, *x.stride(), n_cols, block, num_warps=1)
        divide_kernel[grid](out, sums, maxima, x, *x.stride(), n_cols, block, num_warps=1)
    return out
