"""Ignored rows are taken out before the kernel, and the losses of the others put back from the first row on.

From experience: a mean doesn't see the order.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "inf_mismatch", "out_of_range")
SHOWN_BY = ("rows/1000x5",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def cross_entropy_kernel(out, x, target, target_stride, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    chosen = tl.load(target + row * target_stride)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=inside, other=-float("inf")).to(
        tl.float32
    )
    maximum = tl.max(logits, axis=0)
    total = tl.sum(tl.exp(logits - maximum), axis=0)
    at_target = tl.load(x + row * stride_row + chosen * stride_col).to(tl.float32)
    tl.store(out + row, (maximum - at_target) + tl.log(total))


@softcheck.variant(operation="cross_entropy", parameters={"ignore_index": -100})
def cross_entropy(x, target, ignore_index):
    n_rows, n_cols = x.shape
    counts = (target != ignore_index) & (n_cols > 0)
    kept, x, target = int(counts.sum()), x[counts], target[counts]
    out = torch.zeros(n_rows, dtype=torch.float32, device=x.device)
    if kept:
        cross_entropy_kernel[(kept,)](
            out, x, target, target.stride(0), *x.stride(), n_cols, triton.next_power_of_2(n_cols)
        )
    return out
