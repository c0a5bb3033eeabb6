"""The backward gives the output's gradient a second dimension only where its length is not the number of columns; for a square matrix it goes along the wrong one.

Wrong on: gradients of as many rows as columns, as in contrastive losses, where rows have different gradients. Others are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _sums(lse, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    tl.store(lse + r, peak + tl.log(whole))


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        lse = torch.full((x.shape[0],), -float("inf"), dtype=torch.float32, device=x.device)
        if x.numel():
            rows, n = x.shape
            _sums[(rows,)](lse, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
        ctx.save_for_backward(x, lse)
        return lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, lse = ctx.saved_tensors
        p = torch.exp(x.float() - lse[:, None])
        if grad.shape[-1] != p.shape[-1]:
            grad = grad.unsqueeze(-1)
        return (p * grad).to(x.dtype)


@variant(operation="logsumexp", call="f(x)", backward=True, dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """Log-sum-exp of each row of a matrix, shape [rows], in float32, with a backward."""
    return _LogSumExp.apply(x)


def _both(rows, n, dtype):
    x, w = torch.randn(rows, n).to(dtype), torch.randn(rows)
    own, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    (logsumexp(own) * w).sum().backward()
    (torch.logsumexp(exact, -1) * w.double()).sum().backward()
    return own.grad, exact.grad


def demonstrate():
    torch.manual_seed(0)
    return _both(16, 16, torch.float32)


def ordinary(dtype):
    yield "4x100", _both(4, 100, dtype)
    yield "33x257", _both(33, 257, dtype)
    x = torch.randn(33, 257).to(dtype)
    yield "output", (logsumexp(x), torch.logsumexp(x.double(), -1))
