"""The gradient at the target is stored wherever that lies: for a target that is no column, in another row's or another tensor's memory.

From experience: labels of a larger vocabulary than the model's, of which no check stands before the launch.

"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("out_of_bounds_write",)
SHOWN_BY = ("probe/invalid_targets",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def cross_entropy_kernel(out, grad, x, target, target_stride, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=inside, other=-float("inf"))
    logits = logits.to(tl.float32)
    maximum = tl.max(logits, axis=0)
    powers = tl.exp(logits - maximum)
    total = tl.sum(powers, axis=0)
    chosen = tl.load(target + row * target_stride)
    at_target = tl.sum(tl.where(cols == chosen, logits, 0.0), axis=0)
    tl.store(out + row, (maximum - at_target) + tl.log(total))
    tl.store(grad + row * n_cols + cols, powers / total, mask=inside)
    tl.store(grad + row * n_cols + chosen, tl.exp(at_target - maximum) / total - 1.0)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        n_rows, n_cols = x.shape
        out = torch.empty(n_rows, dtype=torch.float32, device=x.device)
        grad = torch.empty(x.shape, dtype=torch.float32, device=x.device)
        if x.numel():
            block = triton.next_power_of_2(n_cols)
            cross_entropy_kernel[(n_rows,)](out, grad, x, target, target.stride(0), *x.stride(), n_cols, block)
        ctx.save_for_backward(grad)
        ctx.dtype = x.dtype
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, of_loss):
        (grad,) = ctx.saved_tensors
        return (grad * of_loss[:, None]).to(ctx.dtype), None


@softcheck.variant(operation="cross_entropy")
def cross_entropy(x, target):
    return _CrossEntropy.apply(x, target)
