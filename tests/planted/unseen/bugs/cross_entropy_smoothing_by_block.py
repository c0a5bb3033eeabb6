"""The smoothed share of each column is divided by the width of the block, the next power of two, and not by the number of columns.

Wrong on: rows of 20 columns with a smoothing of 0.1; right for 32, 64 or 32768 columns, and for 32000 it is off by some 2 % of a tenth of the loss.
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
    mean = tl.sum(tl.where(inside, -below, 0.0), axis=0) / BLOCK + logarithm
    tl.store(loss + row, 0.9 * ((maximum - at_target) + logarithm) + 0.1 * mean)


@variant(
    operation="cross_entropy",
    parameters={"label_smoothing": 0.1},
    call="f(x, target)",
    max_columns=131072,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row with a label smoothing of 0.1."""
    loss = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    if x.numel():
        rows, columns = x.shape
        _kernel[(rows,)](loss, x, target, target.stride(0), *x.stride(), columns, triton.next_power_of_2(columns))
    return loss


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(3, 20), torch.tensor([0, 7, 19])
    return cross_entropy(x, target), torch.nn.functional.cross_entropy(
        x.double(), target, reduction="none", label_smoothing=0.1
    )
