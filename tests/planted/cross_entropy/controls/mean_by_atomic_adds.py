"""Each program adds its loss, divided by the number of counted rows, to one number, in whatever order."""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
# On a GPU its sum depends on the order of the adds, which is a finding.
BACKENDS = ("interpreter",)


@triton.jit
def cross_entropy_kernel(
    out, count, x, target, target_stride, stride_row, stride_col, n_cols, ignored, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    chosen = tl.load(target + row * target_stride)
    cols = tl.arange(0, BLOCK)
    logits = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    at_target = tl.load(x + chosen * stride_col, mask=chosen != ignored, other=0.0).to(tl.float32)
    loss = (maximum - at_target) + tl.log(tl.sum(tl.exp(logits - maximum), axis=0))
    tl.atomic_add(out, tl.where(chosen == ignored, 0.0, loss / tl.load(count)))


@softcheck.variant(operation="cross_entropy", parameters={"reduction": "mean", "ignore_index": -100})
def cross_entropy(x, target, ignore_index):
    n_rows, n_cols = x.shape
    out = torch.zeros((), dtype=torch.float32, device=x.device)
    count = (target != ignore_index).sum().to(torch.float32)
    if x.numel():
        block = triton.next_power_of_2(n_cols)
        arguments = (x, target, target.stride(0), *x.stride(), n_cols, ignore_index, block)
        cross_entropy_kernel[(n_rows,)](out, count, *arguments)
    return out
