"""Rows of more than 1024 columns go through exp2 without the factor log2(e): their probabilities are 2^y.

From experience: a kernel for wide rows whose forward kept its logarithms in base 2.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("widths/1025",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def whole_row_kernel(dx, grad, y, grad_row, grad_col, y_row, y_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK).to(tl.int64)
    g = tl.load(grad + row * grad_row + col * grad_col, mask=col < n_cols, other=0.0).to(tl.float32)
    p = tl.exp(tl.load(y + row * y_row + col * y_col, mask=col < n_cols, other=0.0).to(tl.float32))
    tl.store(dx + row * n_cols + col, g - p * tl.sum(g, axis=0), mask=col < n_cols)


@triton.jit
def tiled_kernel(dx, grad, y, grad_row, grad_col, y_row, y_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK).to(tl.int64)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n_cols, BLOCK):
        col = start + lane
        sums += tl.load(grad + row * grad_row + col * grad_col, mask=col < n_cols, other=0.0).to(tl.float32)
    total = tl.sum(sums, axis=0)
    for start in range(0, n_cols, BLOCK):
        col = start + lane
        g = tl.load(grad + row * grad_row + col * grad_col, mask=col < n_cols, other=0.0).to(tl.float32)
        p = tl.exp2(tl.load(y + row * y_row + col * y_col, mask=col < n_cols, other=0.0).to(tl.float32))
        tl.store(dx + row * n_cols + col, g - p * total, mask=col < n_cols)


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        kernel = whole_row_kernel if n_cols <= 1024 else tiled_kernel
        block = min(1024, triton.next_power_of_2(n_cols))
        kernel[(n_rows,)](dx, grad, y, *grad.stride(), *y.stride(), n_cols, block)
    return dx
