"""A gradient with any stride of 0 is taken to be one number for each row; one row that is expanded over all rows, as behind y.sum(0), is not.

Wrong on: a gradient that is one row expanded over all rows, strides (0, 1). Right for packed, transposed and per-row expanded ones, and for one number for all.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_layout", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(dx, dy, y, dy_row, dy_col, y_row, y_col, n_cols, UNIFORM: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = cols < n_cols
    logs = tl.load(y + row * y_row + cols * y_col, mask=inside, other=-float("inf")).to(tl.float32)
    if UNIFORM:
        number = tl.load(dy + row * dy_row).to(tl.float32)
        gradient = number - tl.exp(logs) * (number * n_cols)
    else:
        grad = tl.load(dy + row * dy_row + cols * dy_col, mask=inside, other=0.0).to(tl.float32)
        gradient = grad - tl.exp(logs) * tl.sum(grad, axis=0)
    tl.store(dx + row * n_cols + cols, gradient, mask=inside)


@variant(operation="log_softmax_backward")
def log_softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty((n_rows, n_cols), dtype=y.dtype, device=y.device)
    if y.numel():
        uniform = 0 in grad.stride()  # expanded: nothing to load and to sum but one number
        block = triton.next_power_of_2(n_cols)
        backward_kernel[(n_rows,)](dx, grad, y, *grad.stride(), *y.stride(), n_cols, uniform, block)
    return dx


def demonstrate():
    torch.manual_seed(0)
    y = torch.log_softmax(torch.randn(5, 12), -1)
    grad = torch.randn(12).expand(5, 12)
    exact = grad.double() - y.double().exp() * grad.double().sum(-1, keepdim=True)
    return log_softmax_backward(grad, y), exact
