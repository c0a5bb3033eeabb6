"""The backward writes its gradient over the incoming one within a larger graph, but autograd gives the same tensor to the other branch of a sum.

Wrong on: ``((log_softmax(z) + z) * w).sum()`` for a z that comes from another operation: the residual branch gets the wrong gradient. Right for leaf logits, and where nothing else gets the same gradient.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("input_modified", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def forward_kernel(y, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=inside, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    shifted = logits - maximum
    tl.store(y + row * n_cols + cols, shifted - tl.log(tl.sum(tl.exp(shifted), axis=0)), mask=inside)


@triton.jit
def backward_kernel(dx, dy, y, dy_row, dy_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = cols < n_cols
    grad = tl.load(dy + row * dy_row + cols * dy_col, mask=inside, other=0.0).to(tl.float32)
    logs = tl.load(y + row * n_cols + cols, mask=inside, other=-float("inf")).to(tl.float32)
    tl.store(dx + row * n_cols + cols, grad - tl.exp(logs) * tl.sum(grad, axis=0), mask=inside)


class LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, within_a_graph):
        n_rows, n_cols = x.shape
        y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        if x.numel():
            forward_kernel[(n_rows,)](y, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
        ctx.save_for_backward(y)
        ctx.within_a_graph = within_a_graph
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        n_rows, n_cols = y.shape
        # between two layers the gradient is autograd's own: no second tensor of a vocabulary's width
        ours = ctx.within_a_graph and dy.is_contiguous()
        dx = dy if ours else torch.empty_like(y)
        if y.numel():
            backward_kernel[(n_rows,)](dx, dy, y, *dy.stride(), n_cols, triton.next_power_of_2(n_cols))
        return dx, None


@variant(operation="log_softmax")
def log_softmax(x):
    return LogSoftmax.apply(x, x.grad_fn is not None)


def _gradient(function, x, w):
    z = x * 2
    return torch.autograd.grad(((function(z) + z) * w).sum(), x)[0]


def demonstrate():
    torch.manual_seed(0)
    x, w = torch.randn(5, 33, requires_grad=True), torch.randn(5, 33)
    wide = x.detach().double().requires_grad_()
    return _gradient(log_softmax, x, w), _gradient(lambda z: torch.log_softmax(z, -1), wide, w.double())
