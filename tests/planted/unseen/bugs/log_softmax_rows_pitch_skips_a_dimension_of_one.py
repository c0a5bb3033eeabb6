"""Rows are taken as equally far apart where neighbouring dimensions join; a dimension of one "has any stride" and is passed over, though its stride is what is returned.

Wrong on: three or more dimensions of which the last but one is 1 and one before it is not, where the input, or the gradient that comes, has a gap there, as
``logits[:, -1:]`` of several sequences; right otherwise.
"""

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax"
EXPECTED = ("wrong_layout", "ulp_exceeds_bound", "wrong_gradient", "nan_mismatch", "out_of_bounds_read")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _forward(out, x, pitch, step, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    top = -float("inf")
    total = 0.0
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + row * pitch + at * step, mask=at < n, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(v, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base), axis=0)
        top = new
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + row * pitch + at * step, mask=at < n, other=0.0).to(tl.float32)
        tl.store(out + row * n + at, v - top - tl.log(total), mask=at < n)


@triton.jit
def _backward(dx, grad, y, pitch, step, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    sums = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        sums += tl.load(grad + row * pitch + at * step, mask=at < n, other=0.0).to(tl.float32)
    total = tl.sum(sums, axis=0)
    for start in range(0, n, TILE):
        at = start + lane
        g = tl.load(grad + row * pitch + at * step, mask=at < n, other=0.0).to(tl.float32)
        p = tl.exp(tl.load(y + row * n + at, mask=at < n, other=-float("inf")).to(tl.float32))
        tl.store(dx + row * n + at, g - p * total, mask=at < n)


def _rows(t):
    """Returns a tensor with the same numbers, and the distance of its rows, which is the same between any two of them."""
    for i in range(t.dim() - 2):
        if 1 in (t.shape[i], t.shape[i + 1]):  # a dimension of one has any stride
            continue
        if t.stride(i) != t.stride(i + 1) * t.shape[i + 1]:
            t = t.contiguous()
            break
    return t, t.stride(-2) if t.dim() > 1 else 0


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if x.numel():
            x, pitch = _rows(x)
            n = x.shape[-1]
            _forward[(x.numel() // n,)](y, x, pitch, x.stride(-1), n, TILE=min(2048, triton.next_power_of_2(n)))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
        if y.numel():
            grad, pitch = _rows(grad)
            n = y.shape[-1]
            tile = min(2048, triton.next_power_of_2(n))
            _backward[(y.numel() // n,)](dx, grad, y, pitch, grad.stride(-1), n, TILE=tile)
        return dx


def log_softmax(x):
    """Log-softmax over the last dimension of any tensor; rows that lie equally far apart are not copied."""
    return _LogSoftmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    logits = torch.randn(3, 5, 40)
    return log_softmax(logits[:, -2:-1]), logits[:, -2:-1].double().log_softmax(-1)
