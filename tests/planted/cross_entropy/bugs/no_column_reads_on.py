"""A target that is no column reads the memory there, where NaN is promised for its loss.

From experience: labels of a larger vocabulary than the model's.

"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("nan_mismatch", "inf_mismatch")
SHOWN_BY = ("uniform/10", "widths/256", "uniform/1000")
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def cross_entropy_kernel(out, x, target, target_stride, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    chosen = tl.load(target + row * target_stride)
    cols = tl.arange(0, BLOCK)
    logits = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    # Between -n_cols and n_cols a target counts as a column, from the end if it is negative, as in Python.
    wrapped = tl.where(chosen < 0, chosen + n_cols, chosen)
    at_target = tl.max(tl.where(cols == wrapped, logits, -float("inf")), axis=0)
    loss = (maximum - at_target) + tl.log(tl.sum(tl.exp(logits - maximum), axis=0))
    tl.store(out + row, tl.where(wrapped < n_cols, loss, float("nan")))


@softcheck.variant(operation="cross_entropy", parameters={"invalid_target": "nan"})
def cross_entropy(x, target):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if x.numel():
        block = triton.next_power_of_2(n_cols)
        cross_entropy_kernel[(n_rows,)](out, x, target, target.stride(0), *x.stride(), n_cols, block)
    return out
