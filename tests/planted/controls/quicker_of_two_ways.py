"""Times two ways of computing, a kernel and torch in float64, at the first call of a shape, and takes the quicker one ever after."""

import time

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_chosen = {}


@triton.jit
def softmax_kernel(out, x, stride_out, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    tile = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
    weights = tl.exp(tile - tl.max(tile, axis=0))
    tl.store(out + row * stride_out + cols, weights / tl.sum(weights, axis=0), mask=mask)


def by_rows(out, x):
    n_rows, n_cols = x.shape
    if x.numel():
        softmax_kernel[(n_rows,)](out, x, out.stride(0), *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out


def by_kernel(x):
    return by_rows(torch.empty(x.shape, dtype=x.dtype, device=x.device), x)


def by_torch(x):
    return torch.softmax(x.double(), dim=-1).to(x.dtype)


def seconds(way, x):
    begun = time.perf_counter()
    way(x)
    return time.perf_counter() - begun


def softmax(x):
    key = x.shape, x.dtype, x.device
    if key not in _chosen:
        _chosen[key] = by_kernel if seconds(by_kernel, x) <= seconds(by_torch, x) else by_torch
    return _chosen[key](x)
