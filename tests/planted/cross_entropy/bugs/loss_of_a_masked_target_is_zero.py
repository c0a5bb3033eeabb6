"""A target whose logit is -inf has the loss 0 in place of +inf, "as it can't be learnt".

From experience: an infinite loss ends a training run, so it was guarded.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("inf_mismatch",)
SHOWN_BY = ("padding/leading-512-of-1025",)
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
    loss = (maximum - at_target) + tl.log(total)
    tl.store(out + row, tl.where(at_target == -float("inf"), 0.0, loss))


@softcheck.variant(operation="cross_entropy")
def cross_entropy(x, target):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if x.numel():
        cross_entropy_kernel[(n_rows,)](
            out, x, target, target.stride(0), *x.stride(), n_cols, triton.next_power_of_2(n_cols)
        )
    return out
