"""Four rows go to a program and the grid ends at 512 programs, without a loop: rows from 2048 on stay unwritten.

Reports: NVIDIA/TensorRT#2021, fla-org/flash-linear-attention#172 (limits of the grid).
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("unwritten_output",)
SHOWN_BY = ("rows/65535x2",)
DTYPES = ("float16", "float32")
BACKENDS = ("cuda",)

ROWS = 4
MAX_PROGRAMS = 512


@triton.jit
def log_softmax_kernel(out, x, stride_row, stride_col, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    maximum = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)[None, :]
        mask = (rows < n_rows) & (cols < n_cols)
        tile = tl.load(x + rows * stride_row + cols * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(maximum, tl.max(tile, axis=1))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(tile - shift[:, None]), axis=1)
        maximum = larger
    logarithm = tl.log(total)[:, None]
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)[None, :]
        mask = (rows < n_rows) & (cols < n_cols)
        tile = tl.load(x + rows * stride_row + cols * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
        tl.store(out + rows * n_cols + cols, tile - maximum[:, None] - logarithm, mask=mask)


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        grid = (min(triton.cdiv(n_rows, ROWS), MAX_PROGRAMS),)
        log_softmax_kernel[grid](out, x, *x.stride(), n_rows, n_cols, ROWS, 512)
    return out
