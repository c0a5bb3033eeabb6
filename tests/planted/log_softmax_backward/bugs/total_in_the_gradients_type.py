"""The total of the gradients is added up in their own type: with 16 bits it keeps 2 or 3 digits.

From experience: an accumulator is made with the type of the pointer that it is loaded from.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "inf_mismatch")
SHOWN_BY = ("log-softmax-gradients/varying-563",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(dx, grad, y, grad_row, grad_col, y_row, y_col, n_cols, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    grad += row * grad_row
    y += row * y_row
    sums = tl.zeros([TILE], grad.dtype.element_ty)
    for start in range(0, n_cols, TILE):
        sums += tl.load(grad + (start + lane) * grad_col, mask=start + lane < n_cols, other=0.0)
    total = tl.sum(sums, axis=0).to(tl.float32)
    for start in range(0, n_cols, TILE):
        col = start + lane
        g = tl.load(grad + col * grad_col, mask=col < n_cols, other=0.0).to(tl.float32)
        p = tl.exp(tl.load(y + col * y_col, mask=col < n_cols, other=0.0).to(tl.float32))
        tl.store(dx + row * n_cols + col, g - p * total, mask=col < n_cols)


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16"))
def log_softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        backward_kernel[(n_rows,)](dx, grad, y, *grad.stride(), *y.stride(), n_cols, 64)
    return dx
