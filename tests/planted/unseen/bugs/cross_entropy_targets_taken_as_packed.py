"""Targets are read one after the other, whatever their stride.

Wrong on: targets that are a column of a matrix of labels, labels[:, 0]; right for packed targets.
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
def _kernel(loss, x, target, target_stride, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    chosen = tl.load(target + row * target_stride)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    logits = tl.load(x + row * row_stride + column.to(tl.int64) * column_stride, mask=inside, other=-float("inf")).to(
        tl.float32
    )
    maximum = tl.max(logits, axis=0)
    below = logits - maximum
    logarithm = tl.log(tl.sum(tl.exp(below), axis=0))
    is_column = (chosen >= 0) & (chosen < columns)
    at_target = tl.load(x + row * row_stride + chosen * column_stride, mask=is_column, other=float("nan")).to(
        tl.float32
    )
    tl.store(loss + row, (maximum - at_target) + logarithm)


@variant(
    operation="cross_entropy",
    parameters={},
    call="f(x, target)",
    max_columns=131072,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row."""
    loss = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    if x.numel():
        rows, columns = x.shape
        _kernel[(rows,)](loss, x, target, 1, *x.stride(), columns, triton.next_power_of_2(columns))
    return loss


def demonstrate():
    torch.manual_seed(0)
    x, labels = torch.randn(4, 10), torch.tensor([[0, 5], [1, 6], [2, 7], [3, 8]])
    target = labels[:, 1]
    return cross_entropy(x, target), torch.nn.functional.cross_entropy(x.double(), target, reduction="none")
