"""Both tensors are read with the row stride of the output: an expanded or padded gradient has another one.

From experience: the forward's kernel had one input, and the backward's signature was copied from it.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "inf_mismatch", "wrong_layout", "crash", "out_of_bounds_read")
SHOWN_BY = ("log-softmax-gradients/strided-70",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(dx, grad, y, row_stride, grad_col, y_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK).to(tl.int64)
    g = tl.load(grad + row * row_stride + col * grad_col, mask=col < n_cols, other=0.0).to(tl.float32)
    p = tl.exp(tl.load(y + row * row_stride + col * y_col, mask=col < n_cols, other=0.0).to(tl.float32))
    tl.store(dx + row * n_cols + col, g - p * tl.sum(g, axis=0), mask=col < n_cols)


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"), max_columns=65536)
def log_softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        block = triton.next_power_of_2(n_cols)
        backward_kernel[(n_rows,)](dx, grad, y, y.stride(0), grad.stride(1), y.stride(1), n_cols, block)
    return dx
