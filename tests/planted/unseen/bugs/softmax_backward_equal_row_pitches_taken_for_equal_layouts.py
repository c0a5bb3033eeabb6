"""Where rows of the output and of its gradient lie equally far apart, the gradient is read with the output's strides, though its columns may lie otherwise.

Wrong on: an output ``wide[:, ::2]`` and a gradient ``other[:, :12]``, both of rows 24 apart. Right where the pitches differ or the columns lie alike.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_layout", "ulp_exceeds_bound", "nan_mismatch", "out_of_bounds_read", "crash")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(dx, dy, y, y_row, y_col, dy_row, dy_col, n_cols, SAME: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = cols < n_cols
    offsets = row * y_row + cols * y_col
    probabilities = tl.load(y + offsets, mask=inside, other=0.0).to(tl.float32)
    if not SAME:
        offsets = row * dy_row + cols * dy_col
    grad = tl.load(dy + offsets, mask=inside, other=0.0).to(tl.float32)
    gradient = probabilities * (grad - tl.sum(probabilities * grad, axis=0))
    tl.store(dx + row * n_cols + cols, gradient, mask=inside)


@variant(operation="softmax_backward")
def softmax_backward(grad, y):
    n_rows, n_cols = y.shape
    dx = torch.empty((n_rows, n_cols), dtype=y.dtype, device=y.device)
    if y.numel():
        same = grad.stride(0) == y.stride(0) >= n_cols  # one set of offsets for both
        block = triton.next_power_of_2(n_cols)
        backward_kernel[(n_rows,)](dx, grad, y, *y.stride(), *grad.stride(), n_cols, same, block)
    return dx


def demonstrate():
    torch.manual_seed(0)
    y = torch.empty(5, 24)[:, ::2]
    y.copy_(torch.softmax(torch.randn(5, 12), -1))
    grad = torch.randn(5, 24)[:, :12]
    g, p = grad.double(), y.double()
    return softmax_backward(grad, y), p * (g - (p * g).sum(-1, keepdim=True))
