"""Makes a workspace that nobody used for a second anew, and clears it like the first one."""

import time

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_IDLE = 1.0

_workspaces = {}


@triton.jit
def softmax_kernel(out, sums, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    tile = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
    weights = tl.exp(tile - tl.max(tile, axis=0))
    total = tl.load(sums + row) + tl.sum(weights, axis=0)
    tl.store(out + row * n_cols + cols, weights / total, mask=mask)


def workspace(rows, device):
    now = time.perf_counter()
    last, sums = _workspaces.get(device, (now, None))
    if sums is None or sums.numel() < rows or now - last > _IDLE:
        sums = torch.zeros(rows, dtype=torch.float32, device=device)
    _workspaces[device] = now, sums
    return sums


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        sums = workspace(n_rows, x.device)
        softmax_kernel[(n_rows,)](out, sums, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
