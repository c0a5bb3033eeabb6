"""Rows of more than 256 columns are written in vectors of 4, and the columns behind the last of them are left out.

From experience: a vocabulary is a multiple of 64 in every model that was tried.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("unwritten_output",)
SHOWN_BY = ("widths/257",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(dx, grad, y, grad_row, grad_col, y_row, y_col, n_cols, n_written, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK).to(tl.int64)
    g = tl.load(grad + row * grad_row + col * grad_col, mask=col < n_cols, other=0.0).to(tl.float32)
    p = tl.exp(tl.load(y + row * y_row + col * y_col, mask=col < n_cols, other=0.0).to(tl.float32))
    tl.store(dx + row * n_cols + col, g - p * tl.sum(g, axis=0), mask=col < n_written)


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"), max_columns=65536)
def log_softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        vector = 4 if n_cols > 256 else 1
        written = n_cols // vector * vector
        block = triton.next_power_of_2(n_cols)
        backward_kernel[(n_rows,)](dx, grad, y, *grad.stride(), *y.stride(), n_cols, written, block)
    return dx
