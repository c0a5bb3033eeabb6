"""``grad.float()`` of a dense transposed gradient keeps its strides, and the backward of wide rows takes it for packed.

Wrong on: 16-bit rows of more than 2048 columns whose incoming gradient lies transposed; right otherwise.
"""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")

ONE_BLOCK, TILE = 2048, 1024


@triton.jit
def _forward(out, x, row_stride, column_stride, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        v = tl.load(x + row * row_stride + at.to(tl.int64) * column_stride, mask=at < n, other=-float("inf")).to(
            tl.float32
        )
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        v = tl.load(x + row * row_stride + at.to(tl.int64) * column_stride, mask=at < n, other=-float("inf")).to(
            tl.float32
        )
        tl.store(out + row * n + at, tl.exp(v - top) / total, mask=at < n)


@triton.jit
def _backward_block(dx, g, y, row_stride, column_stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    a = tl.load(g + row * row_stride + at.to(tl.int64) * column_stride, mask=at < n, other=0.0).to(tl.float32)
    b = tl.load(y + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(dx + row * n + at, b * (a - tl.sum(a * b, axis=0)), mask=at < n)


@triton.jit
def _backward_tiles(dx, g, y, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    dot = tl.full([], 0.0, tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        a = tl.load(g + row * n + at, mask=at < n, other=0.0)
        b = tl.load(y + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        dot += tl.sum(a * b, axis=0)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        a = tl.load(g + row * n + at, mask=at < n, other=0.0)
        b = tl.load(y + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(dx + row * n + at, b * (a - dot), mask=at < n)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        rows, n = x.shape
        y = torch.empty(rows, n, dtype=x.dtype, device=x.device)
        _forward[(rows,)](y, x, *x.stride(), n, TILE=min(TILE, triton.next_power_of_2(n)))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        rows, n = y.shape
        dx = torch.empty(rows, n, dtype=y.dtype, device=y.device)
        if n <= ONE_BLOCK:
            _backward_block[(rows,)](dx, grad, y, *grad.stride(), n, BLOCK=triton.next_power_of_2(n))
        else:
            # A wider copy is packed as it is made; what needs none is packed here.
            g = grad.contiguous() if grad.dtype == torch.float32 else grad.float()
            _backward_tiles[(rows,)](dx, g, y, n, TILE=TILE)
        return dx


def softmax(x):
    """Softmax of [rows, columns] with a backward: of one block up to 2048 columns, by tiles of a float32 gradient beyond."""
    if not x.numel():
        return torch.empty_like(x)
    return _Softmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    x, grad = torch.randn(3, 3000).half().requires_grad_(), torch.randn(3000, 3).half().T
    softmax(x).backward(grad)
    exact = x.detach().double().requires_grad_()
    torch.softmax(exact, -1).backward(grad.double())
    return x.grad, exact.grad
