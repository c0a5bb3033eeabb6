"""The backward's sums of o * do read do with o's strides; a gradient that comes through o.transpose(1, 2).reshape lies as [batch, length, heads, dim].

Wrong on: gradients behind ``o.transpose(1, 2).reshape(batch, length, heads * dim)``, as of most layers. Right for a packed gradient, and for all outputs.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def attention_kernel(
    o,
    logs,
    q,
    k,
    v,
    scale,
    n_heads,
    n_q,
    n_k,
    dim,
    qs0,
    qs1,
    qs2,
    ks0,
    ks1,
    ks2,
    vs0,
    vs1,
    vs2,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
):
    bh = tl.program_id(1).to(tl.int64)
    b = bh // n_heads
    h = bh % n_heads
    rows = tl.program_id(0) * M + tl.arange(0, M)
    at = tl.arange(0, D)
    q += b * qs0 + h * qs1
    k += b * ks0 + h * ks1
    v += b * vs0 + h * vs1
    inside = (rows < n_q)[:, None] & (at < dim)[None, :]
    queries = tl.load(q + rows[:, None] * qs2 + at[None, :], mask=inside, other=0.0)
    maxima = tl.full((M,), -float("inf"), tl.float32)
    totals = tl.zeros((M,), tl.float32)
    sums = tl.zeros((M, D), tl.float32)
    for start in range(0, n_k, N):
        cols = start + tl.arange(0, N)
        real = cols < n_k
        keys = tl.load(k + cols[None, :] * ks2 + at[:, None], mask=real[None, :] & (at < dim)[:, None], other=0.0)
        values = tl.load(v + cols[:, None] * vs2 + at[None, :], mask=real[:, None] & (at < dim)[None, :], other=0.0)
        scores = tl.dot(queries, keys, input_precision="ieee") * scale
        scores = tl.where(real[None, :], scores, -float("inf"))
        larger = tl.maximum(maxima, tl.max(scores, axis=1))
        safe = tl.where(larger == -float("inf"), 0.0, larger)
        weights = tl.exp(scores - safe[:, None])
        shrink = tl.exp(maxima - safe)
        totals = totals * shrink + tl.sum(weights, axis=1)
        sums = sums * shrink[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        maxima = larger
    tl.store(o + (bh * n_q + rows)[:, None] * dim + at[None, :], sums / totals[:, None], mask=inside)
    tl.store(logs + bh * n_q + rows, maxima + tl.log(totals), mask=rows < n_q)


@triton.jit
def delta_kernel(delta, o, do, s0, s1, s2, n_heads, n_q, dim, D: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    bh = row // n_q
    at = tl.arange(0, D)
    offsets = bh // n_heads * s0 + bh % n_heads * s1 + row % n_q * s2 + at
    of = tl.load(o + offsets, mask=at < dim, other=0.0).to(tl.float32)
    gradient = tl.load(do + offsets, mask=at < dim, other=0.0).to(tl.float32)
    tl.store(delta + row, tl.sum(of * gradient, axis=0))


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        batch, n_heads, n_q, dim = q.shape
        n_k = k.shape[2]
        q, k, v = (t if t.stride(3) == 1 else t.contiguous() for t in (q, k, v))
        o = torch.empty((batch, n_heads, n_q, dim), dtype=q.dtype, device=q.device)
        logs = torch.empty((batch, n_heads, n_q), dtype=torch.float32, device=q.device)
        if o.numel():
            attention_kernel[(triton.cdiv(n_q, 32), batch * n_heads)](
                o,
                logs,
                q,
                k,
                v,
                dim**-0.5,
                n_heads,
                n_q,
                n_k,
                dim,
                *q.stride()[:3],
                *k.stride()[:3],
                *v.stride()[:3],
                32,
                32,
                max(16, triton.next_power_of_2(dim)),
            )
        ctx.save_for_backward(q, k, v, o, logs)
        return o

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, do):
        q, k, v, o, logs = ctx.saved_tensors
        _, n_heads, n_q, dim = q.shape
        if do.stride(3) != 1:  # expanded behind a sum
            do = do.contiguous()
        delta = torch.empty_like(logs)
        if o.numel():
            block = triton.next_power_of_2(dim)
            delta_kernel[(delta.numel(),)](delta, o, do, *o.stride()[:3], n_heads, n_q, dim, block)
        # the products are cuBLAS's, in float32
        qf, kf, vf, dof = q.float(), k.float(), v.float(), do.float()
        scale = dim**-0.5
        p = torch.exp(qf @ kf.mT * scale - logs[..., None])
        ds = p * (dof @ vf.mT - delta[..., None]) * scale
        return (ds @ kf).to(q.dtype), (ds.mT @ qf).to(k.dtype), (p.mT @ dof).to(v.dtype)


@variant(operation="attention", parameters={"head_dim": 64})
def attention(q, k, v):
    return Attention.apply(q, k, v)


def _exact(q, k, v):
    q, k, v = q.double(), k.double(), v.double()
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


def _gradient(function, q, k, v, w):
    o = function(q, k, v).transpose(1, 2).reshape(w.shape)
    return torch.autograd.grad((o * w).sum(), q)[0]


def demonstrate():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 20, 16).requires_grad_() for _ in "qkv")
    w = torch.randn(2, 20, 32)
    return _gradient(attention, q, k, v, w), _gradient(_exact, q, k, v, w.double())
