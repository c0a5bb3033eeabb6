"""The output is held at 0 at most, and of NaN and 0 the comparison chooses 0: rows of NaN get numbers.

From experience: a logarithm rounded up above 0 gave a probability above 1, and a minimum was put around it.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("special/nan-in-64",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(dx, grad, y, grad_row, grad_col, y_row, y_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK).to(tl.int64)
    g = tl.load(grad + row * grad_row + col * grad_col, mask=col < n_cols, other=0.0).to(tl.float32)
    logarithm = tl.load(y + row * y_row + col * y_col, mask=col < n_cols, other=0.0).to(tl.float32)
    p = tl.exp(tl.where(logarithm < 0.0, logarithm, 0.0))
    tl.store(dx + row * n_cols + col, g - p * tl.sum(g, axis=0), mask=col < n_cols)


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"), max_columns=65536)
def log_softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        block = triton.next_power_of_2(n_cols)
        backward_kernel[(n_rows,)](dx, grad, y, *grad.stride(), *y.stride(), n_cols, block)
    return dx
