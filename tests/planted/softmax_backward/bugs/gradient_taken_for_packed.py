"""The output gradient is read with a packed matrix's strides: one that is expanded has strides of 0, and other numbers follow.

From experience: a backward behind `sum()`, whose gradient is one number expanded.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "inf_mismatch", "wrong_layout", "crash", "out_of_bounds_read")
SHOWN_BY = ("uniform/10", "probe/meetings")
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(dx, grad, y, grad_row, grad_col, y_row, y_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    grad += row * n_cols
    y += row * y_row
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        g = tl.load(grad + cols * 1, mask=cols < n_cols, other=0.0).to(tl.float32)
        p = tl.load(y + cols * y_col, mask=cols < n_cols, other=0.0).to(tl.float32)
        total += tl.sum(p * g, axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        g = tl.load(grad + cols * 1, mask=cols < n_cols, other=0.0).to(tl.float32)
        p = tl.load(y + cols * y_col, mask=cols < n_cols, other=0.0).to(tl.float32)
        tl.store(dx + row * n_cols + cols, p * (g - total), mask=cols < n_cols)


@softcheck.variant(operation="softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        backward_kernel[(n_rows,)](dx, grad, y, *grad.stride(), *y.stride(), n_cols, 64)
    return dx
