"""A target is checked with <= against the number of columns: the number of columns itself, which is declared to give NaN, reads the first logit of the next row.

Wrong on: a target equal to the number of columns; it reads beyond the input in the last row. -1 gives NaN as declared.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch", "out_of_bounds_read")
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
    is_column = (chosen >= 0) & (chosen <= columns)
    at_target = tl.load(x + row * row_stride + chosen * column_stride, mask=is_column, other=float("nan")).to(
        tl.float32
    )
    tl.store(loss + row, (maximum - at_target) + logarithm)


@variant(
    operation="cross_entropy",
    parameters={"invalid_target": "nan"},
    call="f(x, target)",
    max_columns=131072,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row; NaN for a target that is no column."""
    loss = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    if x.numel():
        rows, columns = x.shape
        _kernel[(rows,)](loss, x, target, target.stride(0), *x.stride(), columns, triton.next_power_of_2(columns))
    return loss


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(3, 10)[:2], torch.tensor([10, 9])
    expected = torch.nn.functional.cross_entropy(x.double(), target.clamp(max=9), reduction="none")
    return cross_entropy(x, target), expected.masked_fill(target > 9, float("nan"))
