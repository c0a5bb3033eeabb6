"""exp2 and log2 with constants of full precision, applied after the maximum is subtracted; two rows per program.

Triton 3.6 can't compile it for float32 (PassManager::run failed), Triton 3.9 can.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter",)

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def log_softmax_kernel(out, x, stride_row, stride_col, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    maximum = tl.full([ROWS], -float("inf"), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)[None, :]
        mask = (rows < n_rows) & (cols < n_cols)
        tile = tl.load(x + rows * stride_row + cols * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
        maximum = tl.maximum(maximum, tl.max(tile, axis=1))
    sums = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)[None, :]
        mask = (rows < n_rows) & (cols < n_cols)
        tile = tl.load(x + rows * stride_row + cols * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
        sums += tl.exp2((tile - maximum[:, None]) * LOG2E)
    logarithm = tl.log2(tl.sum(sums, axis=1)) * LN2
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)[None, :]
        mask = (rows < n_rows) & (cols < n_cols)
        tile = tl.load(x + rows * stride_row + cols * stride_col, mask=mask, other=-float("inf")).to(tl.float32)
        tl.store(out + rows * n_cols + cols, tile - maximum[:, None] - logarithm[:, None], mask=mask)


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        log_softmax_kernel[(triton.cdiv(n_rows, 2),)](out, x, *x.stride(), n_rows, n_cols, 2, 512)
    return out
