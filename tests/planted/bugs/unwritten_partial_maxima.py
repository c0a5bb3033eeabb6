"""A workspace has room for 8 partial maxima, only those of existing tiles are written, and all 8 are read.

From experience. The hardware's maximum skips NaN, and an ordinary stale number only shifts the exponent: only huge ones show.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output",)
SHOWN_BY = ("probe/unwritten",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

TILES = 8


@triton.jit
def partial_kernel(maxima, x, stride_row, stride_col, n_cols, tile, TILES: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    maximum = tl.full([], -float("inf"), tl.float32)
    for start in range(0, tile, BLOCK):
        inside = start + tl.arange(0, BLOCK)
        cols = part * tile + inside
        mask = (inside < tile) & (cols < n_cols)
        logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=mask, other=-float("inf"))
        maximum = tl.maximum(maximum, tl.max(logits.to(tl.float32), axis=0))
    tl.store(maxima + row * TILES + part, maximum)


@triton.jit
def softmax_kernel(out, maxima, x, stride_row, stride_col, n_cols, TILES: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    maximum = tl.max(tl.load(maxima + row * TILES + tl.arange(0, TILES)), axis=0)
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        offsets = row * stride_row + cols.to(tl.int64) * stride_col
        tile = tl.load(x + offsets, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(tile - maximum), axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        offsets = row * stride_row + cols.to(tl.int64) * stride_col
        tile = tl.load(x + offsets, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n_cols + cols, tl.exp(tile - maximum) / total, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        maxima = torch.empty((n_rows, TILES), dtype=torch.float32, device=x.device)
        tile = max(256, triton.cdiv(n_cols, TILES))
        parts = triton.cdiv(n_cols, tile)
        partial_kernel[(n_rows, parts)](maxima, x, *x.stride(), n_cols, tile, TILES, 256)
        softmax_kernel[(n_rows,)](out, maxima, x, *x.stride(), n_cols, TILES, 1024)
    return out
