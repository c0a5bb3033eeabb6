"""Causal attention in five splits of the keys, some of which are empty or wholly hidden, merged by torch in float32."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def split_kernel(
    sums_of,
    maxima_of,
    totals_of,
    q,
    k,
    v,
    scale,
    n_heads,
    group,
    n_q,
    n_k,
    dim,
    value_dim,
    share,
    qs0,
    qs1,
    qs2,
    ks0,
    ks1,
    ks2,
    vs0,
    vs1,
    vs2,
    CAUSAL: tl.constexpr,
    SPLITS: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
):
    bh = tl.program_id(1).to(tl.int64)
    split = tl.program_id(2)
    b = bh // n_heads
    h = bh % n_heads
    rows = tl.program_id(0) * M + tl.arange(0, M)
    at = tl.arange(0, D)
    of = tl.arange(0, E)
    q += b * qs0 + h * qs1
    k += b * ks0 + h // group * ks1
    v += b * vs0 + h // group * vs1
    first = split * share
    end = tl.minimum(first + share, n_k)
    queries = tl.load(
        q + rows[:, None] * qs2 + at[None, :], mask=(rows < n_q)[:, None] & (at < dim)[None, :], other=0.0
    )
    maxima = tl.full((M,), -float("inf"), tl.float32)
    totals = tl.zeros((M,), tl.float32)
    sums = tl.zeros((M, E), tl.float32)
    for start in range(first, end, N):
        cols = start + tl.arange(0, N)
        real = cols < end
        keys = tl.load(k + cols[None, :] * ks2 + at[:, None], mask=real[None, :] & (at < dim)[:, None], other=0.0)
        values = tl.load(
            v + cols[:, None] * vs2 + of[None, :], mask=real[:, None] & (of < value_dim)[None, :], other=0.0
        )
        scores = tl.dot(queries, keys, input_precision="ieee") * scale
        seen = real[None, :]
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, -float("inf"))
        larger = tl.maximum(maxima, tl.max(scores, axis=1))
        safe = tl.where(larger == -float("inf"), 0.0, larger)
        weights = tl.exp(scores - safe[:, None])
        shrink = tl.exp(maxima - safe)
        totals = totals * shrink + tl.sum(weights, axis=1)
        sums = sums * shrink[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        maxima = larger
    part = (bh * n_q + rows) * SPLITS + split
    tl.store(maxima_of + part, maxima, mask=rows < n_q)
    tl.store(totals_of + part, totals, mask=rows < n_q)
    out = sums_of + part[:, None] * value_dim + of[None, :]
    tl.store(out, sums, mask=(rows < n_q)[:, None] & (of < value_dim)[None, :])


@variant(operation="attention", parameters={"causal": "top-left"})
def attention(q, k, v):
    batch, n_heads, n_q, dim = q.shape
    n_k, value_dim = v.shape[2:]
    q, k, v = (t if t.stride(3) == 1 else t.contiguous() for t in (q, k, v))
    splits = 5
    share = triton.cdiv(triton.cdiv(n_k, splits), 16) * 16
    sums = torch.empty((batch, n_heads, n_q, splits, value_dim), dtype=torch.float32, device=q.device)
    maxima, totals = torch.empty((2, batch, n_heads, n_q, splits), dtype=torch.float32, device=q.device)
    if sums.numel():
        split_kernel[(triton.cdiv(n_q, 32), batch * n_heads, splits)](
            sums,
            maxima,
            totals,
            q,
            k,
            v,
            dim**-0.5,
            n_heads,
            n_heads // k.shape[1],
            n_q,
            n_k,
            dim,
            value_dim,
            share,
            *q.stride()[:3],
            *k.stride()[:3],
            *v.stride()[:3],
            True,
            splits,
            32,
            16,
            max(16, triton.next_power_of_2(dim)),
            max(16, triton.next_power_of_2(value_dim)),
        )
    maximum = maxima.amax(-1, keepdim=True)
    shrink = torch.exp(maxima - torch.where(maximum == -float("inf"), 0.0, maximum))
    total = (totals * shrink).sum(-1, keepdim=True)
    return ((sums * shrink[..., None]).sum(-2) / total).to(q.dtype)
