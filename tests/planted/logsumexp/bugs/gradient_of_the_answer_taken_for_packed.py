"""The backward reads the gradient of the answers as packed: one that ``sum()`` expands has a stride of 0.

Report: NVIDIA/TransformerEngine#2402. ``loss.sum().backward()`` gives an expanded tensor, whose memory has one element.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("wrong_gradient", "out_of_bounds_read")
SHOWN_BY = ("probe/gradients",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def backward_kernel(grad, grad_out, logarithm, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols.to(tl.int64) * stride_col, mask=inside, other=-float("inf")).to(
        tl.float32
    )
    found = tl.exp(logits - tl.load(logarithm + row)) * tl.load(grad_out + row)
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
            backward_kernel[(n_rows,)](grad, grad_out, y, x, *x.stride(), n_cols, block)
        return grad


@softcheck.variant(operation="logsumexp")
def logsumexp(x):
    return _LogSumExp.apply(x)
