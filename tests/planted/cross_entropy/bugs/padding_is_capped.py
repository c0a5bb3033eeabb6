"""The soft cap is taken of the padding's -inf too, which makes it -c: lanes beyond the row enter the sum.

From experience: the cap was added between a kernel's load and its maximum.

"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "inf_mismatch", "out_of_range")
SHOWN_BY = ("normal/scale-3-129",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def cross_entropy_kernel(out, x, target, target_stride, stride_row, stride_col, n_cols, cap, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    chosen = tl.load(target + row * target_stride)
    cols = tl.arange(0, BLOCK)
    logits = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    logits = cap * (2 * tl.sigmoid(2 * logits / cap) - 1)
    maximum = tl.max(logits, axis=0)
    at_target = tl.max(tl.where(cols == chosen, logits, -float("inf")), axis=0)
    tl.store(out + row, (maximum - at_target) + tl.log(tl.sum(tl.exp(logits - maximum), axis=0)))


@softcheck.variant(operation="cross_entropy", parameters={"softcap": 5.0})
def cross_entropy(x, target, softcap):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if x.numel():
        block = triton.next_power_of_2(n_cols)
        cross_entropy_kernel[(n_rows,)](out, x, target, target.stride(0), *x.stride(), n_cols, softcap, block)
    return out
