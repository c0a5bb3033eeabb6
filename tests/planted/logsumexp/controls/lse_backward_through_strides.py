"""A backward by hand that reads the answers' gradient through its stride, which may be 0."""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(grad, grad_out, grad_stride, logarithm, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=inside, other=-float("inf")).to(
        tl.float32
    )
    found = tl.exp(logits - tl.load(logarithm + row)) * tl.load(grad_out + row * grad_stride)
    tl.store(grad + row * n_cols + cols, found, mask=inside)


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.logsumexp(x.float(), -1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_out):
        x, y = ctx.saved_tensors
        n_rows, n_cols = x.shape
        grad = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if x.numel():
            block = triton.next_power_of_2(n_cols)
            backward_kernel[(n_rows,)](grad, grad_out, grad_out.stride(0), y, x, *x.stride(), n_cols, block)
        return grad


@softcheck.variant(operation="logsumexp")
def logsumexp(x):
    return _LogSumExp.apply(x)
