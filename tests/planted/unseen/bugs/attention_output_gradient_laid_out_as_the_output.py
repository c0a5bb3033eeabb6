"""The first kernel of the backward, which takes the row sums of o and its gradient, reads the gradient with the strides of o; one with strides of 0 is packed before.

Wrong on: gradients that come through ``o.transpose(1, 2).reshape(batch, length, -1)``, as in every model: they lie by [batch, length, heads, head_dim]. Right for gradients that are packed as o is, and behind ``o.sum()``.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _row_sums(out, o, do, batch_step, head_step, row_step, heads, queries, DIM: tl.constexpr, PADDED: tl.constexpr):
    number = tl.program_id(0).to(tl.int64)
    pair, query = number // queries, number % queries
    d = tl.arange(0, PADDED)
    at = (pair // heads) * batch_step + (pair % heads) * head_step + query * row_step + d
    held = tl.load(o + at, mask=d < DIM, other=0.0).to(tl.float32)
    given = tl.load(do + at, mask=d < DIM, other=0.0).to(tl.float32)
    tl.store(out + number, tl.sum(held * given, 0))


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        with torch.autocast(q.device.type, enabled=False):
            scores = (q.float() @ k.float().mT) * q.shape[-1] ** -0.5
            lse = torch.logsumexp(scores, -1, keepdim=True)
            o = (torch.exp(scores - lse) @ v.float()).to(q.dtype)
        ctx.save_for_backward(q, k, v, o, lse)
        return o

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        q, k, v, o, lse = ctx.saved_tensors
        if 0 in grad.stride():
            grad = grad.contiguous()
        batch, heads, queries, dim = o.shape
        sums = torch.empty(batch, heads, queries, dtype=torch.float32, device=o.device)
        if sums.numel():
            padded = triton.next_power_of_2(dim)
            _row_sums[(sums.numel(),)](sums, o, grad, *o.stride()[:3], heads, queries, dim, padded)
        with torch.autocast(q.device.type, enabled=False):
            scale = dim**-0.5
            g, wide_q, wide_k, wide_v = (each.float() for each in (grad, q, k, v))
            weights = torch.exp((wide_q @ wide_k.mT) * scale - lse)
            of_scores = weights * (g @ wide_v.mT - sums[..., None]) * scale
            found = of_scores @ wide_k, of_scores.mT @ wide_q, weights.mT @ g
            return tuple(each.to(q.dtype) for each in found)


@variant(operation="attention", call="f(q, k, v)", backward=True, dtypes=("float16", "bfloat16", "float32"))
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim], with a backward."""
    return _Attention.apply(q, k, v)


def _plain(q, k, v):
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


def _gradient(function, operands, loss):
    operands = [each.detach().clone().requires_grad_() for each in operands]
    loss(function(*operands)).backward()
    return torch.cat([each.grad for each in operands], 2)


def _both(dtype, loss_of, queries=9, keys=13):
    q = torch.randn(2, 3, queries, 16).to(dtype)
    k, v = (torch.randn(2, 3, keys, 16).to(dtype) for _ in range(2))
    w = torch.randn(2, 3, queries, 16).to(dtype)
    given = _gradient(attention, (q, k, v), lambda o: loss_of(o, w))
    exact = _gradient(_plain, [each.double() for each in (q, k, v)], lambda o: loss_of(o, w.double()))
    # In units of 1, about as large as what is added up.
    return (given.double() + 4.0).to(dtype), exact + 4.0


def _merged(o, w):
    batch, heads, length, dim = o.shape
    merged = o.transpose(1, 2).reshape(batch, length, heads * dim)
    return (merged * w.reshape(batch, length, heads * dim)).sum()


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.float32, _merged)
