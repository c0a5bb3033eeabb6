"""Maximum and logarithm pass through a workspace of the input's type, where the logarithm has 11 bits.

Reports: google-deepmind/optax#1020, pytorch/pytorch#158310, tensorflow/tensorflow#86434 (16-bit intermediates).
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("widths/7",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def statistics_kernel(maxima, logarithms, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    maximum = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(maximum, tl.max(tile, axis=0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(tile - shift), axis=0)
        maximum = larger

    tl.store(maxima + row, maximum)
    tl.store(logarithms + row, tl.log(total))


@triton.jit
def subtract_kernel(out, maxima, logarithms, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    tile = tl.load(x + offsets, mask=cols < n_cols).to(tl.float32)
    result = tile - tl.load(maxima + row).to(tl.float32) - tl.load(logarithms + row).to(tl.float32)
    tl.store(out + row * n_cols + cols, result, mask=cols < n_cols)


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        maxima, logarithms = torch.empty((2, n_rows), dtype=x.dtype, device=x.device)
        statistics_kernel[(n_rows,)](maxima, logarithms, x, *x.stride(), n_cols, 1024)
        subtract_kernel[(n_rows, triton.cdiv(n_cols, 1024))](out, maxima, logarithms, x, *x.stride(), n_cols, 1024)
    return out
