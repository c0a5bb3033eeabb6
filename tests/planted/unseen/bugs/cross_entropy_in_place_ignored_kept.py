"""The gradient is left in the logits' place; a program returns early for an ignored row, where the logits stay instead of zeros.

Wrong on: the gradient of a row whose target is -100.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(loss, x, target, target_stride, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    chosen = tl.load(target + row * target_stride)
    if chosen == -100:
        tl.store(loss + row, 0.0)
        return
    column = tl.arange(0, BLOCK)
    inside = column < columns
    pointers = x + row * row_stride + column.to(tl.int64) * column_stride
    logits = tl.load(pointers, mask=inside, other=-float("inf")).to(tl.float32)
    below = logits - tl.max(logits, axis=0)
    powers = tl.exp(below)
    total = tl.sum(powers, axis=0)
    at_target = tl.sum(tl.where(column == chosen, below, 0.0), axis=0)
    tl.store(loss + row, tl.log(total) - at_target)
    probability = powers / total
    tl.store(pointers, tl.where(column == chosen, probability - 1.0, probability), mask=inside)


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": -100, "gradient_in_place": 1, "invalid_target": "undefined"},
    call="f(x, target)",
    max_columns=131072,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row; the logits become its gradient."""
    loss = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    if x.numel():
        rows, columns = x.shape
        _kernel[(rows,)](loss, x, target, target.stride(0), *x.stride(), columns, triton.next_power_of_2(columns))
    return loss


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(3, 10), torch.tensor([2, -100, 5])
    w = x.double().requires_grad_()
    torch.nn.functional.cross_entropy(w, target, reduction="sum").backward()
    cross_entropy(x, target)
    return x, w.grad
