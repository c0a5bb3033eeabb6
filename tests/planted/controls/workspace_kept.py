"""Keeps a workspace for each thread and stream from call to call, and clears what it uses of it every time."""

import threading

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_workspaces = {}


@triton.jit
def sum_kernel(sums, maxima, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    maximum = tl.load(maxima + row)
    total = tl.load(sums + row)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        offsets = row * stride_row + cols.to(tl.int64) * stride_col
        tile = tl.load(x + offsets, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(tile - maximum), axis=0)
    tl.store(sums + row, total)


@triton.jit
def divide_kernel(out, sums, maxima, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    tile = tl.load(x + offsets, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    result = tl.exp(tile - tl.load(maxima + row)) / tl.load(sums + row)
    tl.store(out + row * n_cols + cols, result, mask=cols < n_cols)


def workspace(rows, device):
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
    key = (device, threading.get_ident(), stream)
    if key not in _workspaces or _workspaces[key].numel() < rows:
        _workspaces[key] = torch.empty(rows, dtype=torch.float32, device=device)
    return _workspaces[key][:rows].zero_()


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        maxima = x.amax(dim=-1).float()
        sums = workspace(n_rows, x.device)
        sum_kernel[(n_rows,)](sums, maxima, x, *x.stride(), n_cols, 1024)
        grid = (n_rows, triton.cdiv(n_cols, 1024))
        divide_kernel[grid](out, sums, maxima, x, *x.stride(), n_cols, 1024)
    return out
