"""The output of the forward is read as if it were packed: a slice of a padded buffer becomes another matrix.

From experience: our own forward returns a packed output, but the operator is called by others too.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "inf_mismatch", "wrong_layout", "crash", "out_of_bounds_read")
SHOWN_BY = ("layout/transposed-5",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(dx, grad, y, grad_row, grad_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK).to(tl.int64)
    g = tl.load(grad + row * grad_row + col * grad_col, mask=col < n_cols, other=0.0).to(tl.float32)
    p = tl.exp(tl.load(y + row * n_cols + col, mask=col < n_cols, other=0.0).to(tl.float32))
    tl.store(dx + row * n_cols + col, g - p * tl.sum(g, axis=0), mask=col < n_cols)


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"), max_columns=65536)
def log_softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        backward_kernel[(n_rows,)](dx, grad, y, *grad.stride(), n_cols, triton.next_power_of_2(n_cols))
    return dx
