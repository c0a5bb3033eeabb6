"""The result is torch.empty_like(y), which takes over the strides of a transposed y, and is written as packed rows.

Wrong on: an output that is a transposed view (softmax over the channels of a channels-last tensor); right for packed outputs and for sliced ones.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "wrong_layout")
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
    probability = tl.load(of_row, mask=inside, other=0.0).to(tl.float32)
    found = probability * (g - tl.sum(probability * g, axis=0))
    tl.store(dx + row * columns + column, found, mask=inside)


@variant(operation="softmax_backward", call="f(grad, y)", max_columns=131072, dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    """The gradient of each row's logits for an output ``y`` and its gradient."""
    dx = torch.empty_like(y)
    if dx.numel():
        rows, columns = y.shape
        _kernel[(rows,)](dx, grad, y, *grad.stride(), *y.stride(), columns, triton.next_power_of_2(columns))
    return dx


def demonstrate():
    torch.manual_seed(0)
    grad, y = torch.randn(4, 20), torch.softmax(torch.randn(4, 20), -1).t().contiguous().t()
    g, p = grad.double(), y.double()
    return softmax_backward(grad, y), p * (g - (p * g).sum(-1, keepdim=True))
