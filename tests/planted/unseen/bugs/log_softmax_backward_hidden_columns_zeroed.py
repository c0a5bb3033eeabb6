"""Columns whose log-softmax is -inf get a gradient of 0 and are left out of the total, though their upstream gradient counts in both.

Wrong on: a log-softmax with -inf (a hidden column) and a gradient of 1 everywhere: the total is one less, and that column gets 0 instead of 1.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(dx, grad, y, grad_row, grad_column, y_row, y_column, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    g = tl.load(grad + row * grad_row + column * grad_column, mask=inside, other=0.0).to(tl.float32)
    of_row = y + row * y_row + column * y_column
    logarithm = tl.load(of_row, mask=inside, other=-float("inf")).to(tl.float32)
    g = tl.where(logarithm == -float("inf"), 0.0, g)
    found = g - tl.exp(logarithm) * tl.sum(g, axis=0)
    tl.store(dx + row * columns + column, found, mask=inside)


@variant(
    operation="log_softmax_backward", call="f(grad, y)", max_columns=131072, dtypes=("float16", "bfloat16", "float32")
)
def log_softmax_backward(grad, y):
    """The gradient of each row's logits for an output ``y`` and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, columns = y.shape
        _kernel[(rows,)](dx, grad, y, *grad.stride(), *y.stride(), columns, triton.next_power_of_2(columns))
    return dx


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(2, 20)
    x[:, 3:6] = -float("inf")
    grad, y = torch.randn(2, 20), torch.log_softmax(x, -1)
    return log_softmax_backward(grad, y), grad.double() - torch.exp(y.double()) * grad.double().sum(-1, keepdim=True)
