"""The mask of the products ends with the matrix: lanes beyond a row add the next row's products to its sum.

From experience: packed copies are addressed by one flat offset, and the bound of an elementwise kernel came with it.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "row_dependence")
SHOWN_BY = ("softmax-gradients/of-one-33",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(dx, grad, y, n_cols, n_elements, BLOCK: tl.constexpr):
    col = tl.arange(0, BLOCK).to(tl.int64)
    offset = tl.program_id(0).to(tl.int64) * n_cols + col
    inside = offset < n_elements
    g = tl.load(grad + offset, mask=inside, other=0.0).to(tl.float32)
    p = tl.load(y + offset, mask=inside, other=0.0).to(tl.float32)
    tl.store(dx + offset, p * (g - tl.sum(p * g, axis=0)), mask=col < n_cols)


@softcheck.variant(operation="softmax_backward", dtypes=("float16", "bfloat16", "float32"), max_columns=65536)
def softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        block = triton.next_power_of_2(n_cols)
        backward_kernel[(n_rows,)](dx, grad.contiguous(), y.contiguous(), n_cols, y.numel(), block)
    return dx
