"""Every negative target is ignored, not -100 alone: no other negative number is a target."""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def cross_entropy_kernel(out, x, target, target_stride, stride_row, stride_col, n_cols, ignored, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    chosen = tl.load(target + row * target_stride)
    if chosen < 0:
        tl.store(out + row, 0.0)
        return
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=inside, other=-float("inf")).to(
        tl.float32
    )
    maximum = tl.max(logits, axis=0)
    total = tl.sum(tl.exp(logits - maximum), axis=0)
    is_column = (chosen >= 0) & (chosen < n_cols)
    at_target = tl.load(x + row * stride_row + chosen * stride_col, mask=is_column, other=float("nan")).to(tl.float32)
    tl.store(out + row, (maximum - at_target) + tl.log(total))


@softcheck.variant(operation="cross_entropy", parameters={"ignore_index": -100})
def cross_entropy(x, target, ignore_index):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if x.numel():
        cross_entropy_kernel[(n_rows,)](
            out, x, target, target.stride(0), *x.stride(), n_cols, ignore_index, triton.next_power_of_2(n_cols)
        )
    return out
