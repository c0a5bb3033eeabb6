"""Outputs that are not above 0 get a gradient of 0, and NaN is not above 0: what went wrong in the forward is hidden.

From experience: masked columns were to have a gradient of exactly 0, whatever their output gradient holds.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("special/inf-in-63",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(dx, grad, y, grad_row, grad_col, y_row, y_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK).to(tl.int64)
    g = tl.load(grad + row * grad_row + col * grad_col, mask=col < n_cols, other=0.0).to(tl.float32)
    p = tl.load(y + row * y_row + col * y_col, mask=col < n_cols, other=0.0).to(tl.float32)
    found = tl.where(p > 0.0, p * (g - tl.sum(p * g, axis=0)), 0.0)
    tl.store(dx + row * n_cols + col, found, mask=col < n_cols)


@softcheck.variant(operation="softmax_backward", dtypes=("float16", "bfloat16", "float32"), max_columns=65536)
def softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        block = triton.next_power_of_2(n_cols)
        backward_kernel[(n_rows,)](dx, grad, y, *grad.stride(), *y.stride(), n_cols, block)
    return dx
