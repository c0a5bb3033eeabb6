"""The probability is rounded to the input's type before 1 is subtracted: near 1, few digits of the difference are left.

From experience: the probabilities were kept in 16 bits for the backward.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("probe/gradients",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(
    grad,
    grad_out,
    grad_stride,
    logarithm,
    x,
    target,
    target_stride,
    stride_row,
    stride_col,
    n_cols,
    ignored,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    chosen = tl.load(target + row * target_stride)
    counts = chosen != ignored
    normalizer = tl.load(logarithm + row)
    scale = tl.load(grad_out + row * grad_stride)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        pointers = x + row * stride_row + cols.to(tl.int64) * stride_col
        logits = tl.load(pointers, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        found = tl.exp(logits - normalizer).to(x.dtype.element_ty).to(tl.float32)
        found = tl.where(cols == chosen, found - 1.0, found) * scale
        tl.store(grad + row * n_cols + cols, tl.where(counts, found, 0.0), mask=cols < n_cols)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target, ignore_index):
        logarithm = torch.logsumexp(x.float(), -1)
        ctx.save_for_backward(x, target, logarithm)
        ctx.ignore_index = ignore_index
        return torch.nn.functional.cross_entropy(x.float(), target, reduction="none", ignore_index=ignore_index)

    @staticmethod
    def backward(ctx, grad_out):
        x, target, logarithm = ctx.saved_tensors
        n_rows, n_cols = x.shape
        grad = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if x.numel():
            arguments = (logarithm, x, target, target.stride(0), *x.stride(), n_cols, ctx.ignore_index, 64)
            backward_kernel[(n_rows,)](grad, grad_out, grad_out.stride(0), *arguments)
        return grad, None, None


@softcheck.variant(operation="cross_entropy", parameters={"ignore_index": -100})
def cross_entropy(x, target, ignore_index):
    return _CrossEntropy.apply(x, target, ignore_index)
