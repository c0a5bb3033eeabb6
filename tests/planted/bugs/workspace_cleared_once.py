"""The workspace of partial sums is cached by shape and cleared when it is made, so every later call adds to the last one's.

From experience; the first call of every shape is right.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/determinism",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_workspaces = {}


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
        key = (n_rows, n_cols, x.dtype, x.device)
        if key not in _workspaces:
            _workspaces[key] = torch.zeros(n_rows, dtype=torch.float32, device=x.device)
        grid = (n_rows, triton.cdiv(n_cols, 1024))
        sum_kernel[grid](_workspaces[key], maxima, x, *x.stride(), n_cols, 1024)
        divide_kernel[grid](out, _workspaces[key], maxima, x, *x.stride(), n_cols, 1024)
    return out
