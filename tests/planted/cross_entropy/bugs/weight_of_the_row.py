"""The class weight is loaded at the row's number in place of the target's.

From experience: the row's pointer was added to all pointers alike.

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
def cross_entropy_kernel(
    out, x, target, weight, target_stride, weight_stride, stride_row, stride_col, n_cols, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    chosen = tl.load(target + row * target_stride)
    cols = tl.arange(0, BLOCK)
    logits = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    at_target = tl.load(x + chosen * stride_col).to(tl.float32)
    loss = (maximum - at_target) + tl.log(tl.sum(tl.exp(logits - maximum), axis=0))
    tl.store(out + row, loss * tl.load(weight + (row % n_cols) * weight_stride).to(tl.float32))


@softcheck.variant(operation="cross_entropy", parameters={"weight": 1})
def cross_entropy(x, target, weight):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if x.numel():
        block = triton.next_power_of_2(n_cols)
        cross_entropy_kernel[(n_rows,)](
            out, x, target, weight, target.stride(0), weight.stride(0), *x.stride(), n_cols, block
        )
    return out
