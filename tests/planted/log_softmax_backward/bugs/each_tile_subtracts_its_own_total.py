"""A wide row is shared by several programs, and each subtracts the total of its own 256 gradients.

From experience: a second grid dimension is added to a kernel in which one program had the whole row.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("log-softmax-gradients/varying-551",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(dx, grad, y, grad_row, grad_col, y_row, y_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    inside = col < n_cols
    g = tl.load(grad + row * grad_row + col * grad_col, mask=inside, other=0.0).to(tl.float32)
    p = tl.exp(tl.load(y + row * y_row + col * y_col, mask=inside, other=0.0).to(tl.float32))
    tl.store(dx + row * n_cols + col, g - p * tl.sum(g, axis=0), mask=inside)


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        grid = (n_rows, triton.cdiv(n_cols, 256))
        backward_kernel[grid](dx, grad, y, *grad.stride(), *y.stride(), n_cols, 256)
    return dx
