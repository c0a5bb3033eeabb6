"""A kernel that adds to its workspace is autotuned: the trial runs of the first call add to it too.

Reports: triton-lang/triton#781, triton-lang/triton#54, triton-lang/triton#6547. Later calls of the same width are right.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation", "ulp_exceeds_bound", "nondeterministic")
SHOWN_BY = ("widths/129", "widths/513")
DTYPES = ("float32",)
BACKENDS = ("cuda",)


@triton.autotune([triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((512, 2), (1024, 4))], key=["n_cols"])
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
        sum_kernel[lambda meta: (n_rows, triton.cdiv(n_cols, meta["BLOCK"]))](sums, maxima, x, *x.stride(), n_cols)
        grid = (n_rows, triton.cdiv(n_cols, 1024))
        divide_kernel[grid](out, sums, maxima, x, *x.stride(), n_cols, 1024)
    return out
