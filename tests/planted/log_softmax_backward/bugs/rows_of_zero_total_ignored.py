"""A row whose gradients add up to 0 counts as ignored and gets zeros: gradients that cancel are lost.

From experience: rows of padding tokens have no gradient, and their total is at hand where each gradient is not.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("log-softmax-gradients/alternating-128",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(dx, grad, y, grad_row, grad_col, y_row, y_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK).to(tl.int64)
    g = tl.load(grad + row * grad_row + col * grad_col, mask=col < n_cols, other=0.0).to(tl.float32)
    total = tl.sum(g, axis=0)
    p = tl.exp(tl.load(y + row * y_row + col * y_col, mask=col < n_cols, other=0.0).to(tl.float32))
    found = tl.where(total == 0.0, p * 0.0, g - p * total)
    tl.store(dx + row * n_cols + col, found, mask=col < n_cols)


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"), max_columns=65536)
def log_softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        block = triton.next_power_of_2(n_cols)
        backward_kernel[(n_rows,)](dx, grad, y, *grad.stride(), *y.stride(), n_cols, block)
    return dx
