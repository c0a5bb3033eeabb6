"""The backward divides plain exponentials by their sum, which overflows where all logits are large; the loss is right.

From experience: the forward gets the care, and the backward is written for the logits of a test.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("probe/gradients",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(
    dx, g, g_stride, x, target, target_stride, stride_row, stride_col, n_cols, ignored, B: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, B)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=inside, other=-float("inf"))
    powers = tl.exp(logits.to(tl.float32))
    chosen = tl.load(target + row * target_stride)
    found = powers / tl.sum(powers, axis=0) - tl.where(cols == chosen, 1.0, 0.0)
    found = tl.where(chosen == ignored, 0.0, found * tl.load(g + row * g_stride))
    tl.store(dx + row * n_cols + cols, found, mask=inside)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target, ignore_index):
        ctx.save_for_backward(x, target)
        ctx.ignore_index = ignore_index
        return torch.nn.functional.cross_entropy(x.float(), target, reduction="none", ignore_index=ignore_index)

    @staticmethod
    def backward(ctx, g):
        x, target = ctx.saved_tensors
        rows, columns = x.shape
        dx = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
        if x.numel():
            block = triton.next_power_of_2(columns)
            places = (*x.stride(), columns, ctx.ignore_index, block)
            backward_kernel[(rows,)](dx, g, g.stride(0), x, target, target.stride(0), *places)
        return dx, None, None


@softcheck.variant(operation="cross_entropy", parameters={"ignore_index": -100}, max_columns=65536)
def cross_entropy(x, target, ignore_index):
    return _CrossEntropy.apply(x, target, ignore_index)
