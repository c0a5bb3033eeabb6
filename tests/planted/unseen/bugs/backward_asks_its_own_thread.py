"""Widths of blocks are kept in a ``threading.local`` by the forward; the backward asks for them in the thread that it runs in, and takes at most 1024 where there are none.

Wrong on: gradients of rows beyond 1024 columns where the backward runs in another thread than the forward: on a GPU always (autograd has a thread for each device), on a CPU where a worker calls ``backward()``. Outputs are right, and short rows.
"""

import threading

import torch
import triton
import triton.language as tl

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_kept = threading.local()


@triton.jit
def _forward(y, x, row_step, column_step, n, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


@triton.jit
def _backward(dx, g, y, row_step, column_step, n, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    p = tl.load(y + r * n + c, mask=c < n, other=0.0).to(tl.float32)
    of_y = tl.load(g + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32)
    tl.store(dx + r * n + c, p * (of_y - tl.sum(p * of_y, 0)), mask=c < n)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if y.numel():
            rows, n = x.shape
            if not hasattr(_kept, "widths"):
                _kept.widths = {}
            block = _kept.widths.setdefault(n, triton.next_power_of_2(n))
            _forward[(rows,)](y, x, *x.stride(), n, block)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        dx = torch.zeros(y.shape, dtype=y.dtype, device=y.device)
        if dx.numel():
            rows, n = y.shape
            block = getattr(_kept, "widths", {}).get(n, min(1024, triton.next_power_of_2(n)))
            _backward[(rows,)](dx, grad, y, *grad.stride(), n, block)
        return dx


def softmax(x):
    """Softmax of each row of a matrix, with a backward."""
    return _Softmax.apply(x)


def _both(dtype, shape, threaded):
    x, w = torch.randn(shape).to(dtype).requires_grad_(), torch.randn(shape).to(dtype)
    y = softmax(x)
    if threaded:
        worker = threading.Thread(target=lambda: y.backward(w))
        worker.start()
        worker.join()
    else:
        y.backward(w)
    p, g = y.detach().double(), w.double()
    mean = (p * g).sum(-1, keepdim=True)
    return x.grad, p * (g - mean)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.float32, (3, 1500), True)
