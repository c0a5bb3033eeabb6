"""A program has four narrow rows, whose products are added up along both axes: all four subtract one number.

From experience: a kernel of one row to a program is given more, and its sum had no axis, since there was one only.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "row_dependence")
SHOWN_BY = ("softmax-gradients/of-each-row-40",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(
    dx, grad, y, grad_row, grad_col, y_row, y_col, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    col = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    inside = (row < n_rows) & (col < n_cols)
    g = tl.load(grad + row * grad_row + col * grad_col, mask=inside, other=0.0).to(tl.float32)
    p = tl.load(y + row * y_row + col * y_col, mask=inside, other=0.0).to(tl.float32)
    tl.store(dx + row * n_cols + col, p * (g - tl.sum(p * g)), mask=inside)


@softcheck.variant(operation="softmax_backward", dtypes=("float16", "bfloat16", "float32"), max_columns=65536)
def softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows = 4 if n_cols <= 64 else 1
        block = triton.next_power_of_2(n_cols)
        grid = (triton.cdiv(n_rows, rows),)
        backward_kernel[grid](dx, grad, y, *grad.stride(), *y.stride(), n_rows, n_cols, rows, block)
    return dx
