"""An online sum that is rescaled as the maximum grows, tile by tile, with a guard for tiles of -inf alone."""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def log_softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
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

    logarithm = tl.log(total)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n_cols + cols, tile - maximum - logarithm, mask=cols < n_cols)


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        log_softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, 512)
    return out
