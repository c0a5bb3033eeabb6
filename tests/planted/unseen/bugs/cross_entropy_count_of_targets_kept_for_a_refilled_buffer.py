"""The number of targets that count is kept for each target tensor, so that a tensor that is filled anew in place has its mean over the old number.

Wrong on: ``target.copy_(other)`` between two calls where other targets count. Right for a new tensor in each call.
"""

import torch
import triton
import triton.language as tl
from torch.utils.weak import WeakTensorKeyDictionary

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def cross_entropy_kernel(
    losses,
    dx,
    x,
    target,
    stride_row,
    stride_col,
    dx_row,
    dx_col,
    target_stride,
    n_cols,
    ignore_index,
    GRADIENT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = cols < n_cols
    chosen = tl.load(target + row * target_stride)
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=inside, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    weights = tl.exp(logits - maximum)
    total = tl.sum(weights, axis=0)
    at_target = tl.sum(tl.where(cols == chosen, logits, 0.0), axis=0)
    counts = chosen != ignore_index
    tl.store(losses + row, tl.where(counts, tl.log(total) + (maximum - at_target), 0.0))
    if GRADIENT:
        gradient = weights / total - tl.where(cols == chosen, 1.0, 0.0)
        tl.store(dx + row * dx_row + cols * dx_col, tl.where(counts, gradient, 0.0), mask=inside)


counted = WeakTensorKeyDictionary()


def number_of(target, ignore_index):
    """How many targets count: one synchronization for a batch, not one for each of its losses."""
    if target not in counted:
        counted[target] = int((target != ignore_index).sum())
    return counted[target]


@variant(operation="cross_entropy", parameters={"reduction": "mean", "ignore_index": -100})
def cross_entropy(x, target):
    n_rows, n_cols = x.shape
    losses = torch.zeros(n_rows, dtype=torch.float32, device=x.device)
    if x.numel():
        cross_entropy_kernel[(n_rows,)](
            losses,
            losses,
            x,
            target,
            *x.stride(),
            0,
            0,
            target.stride(0),
            n_cols,
            -100,
            False,
            triton.next_power_of_2(n_cols),
        )
    number = number_of(target, -100)
    return losses.sum() / number if number else losses.sum() * float("nan")


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(6, 13), torch.randint(0, 13, (6,))
    cross_entropy(x, target)
    target[:4] = -100
    return cross_entropy(x, target), torch.nn.functional.cross_entropy(x.double(), target)
