"""One mask for all heads of a batch is taken in turn: head n of all gets mask n modulo the number of masks.

From experience: masks of [1, 1, queries, queries] and of [batches, heads, queries, queries] are right.
"""

import math

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "out_of_range", "nan_mismatch")
SHOWN_BY = ("probe/shared_masks",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def kernel(
    o,
    q,
    k,
    v,
    a,
    qb,
    qh,
    ql,
    qd,
    kb,
    kh,
    kl,
    kd,
    vb,
    vh,
    vl,
    vd,
    heads,
    queries,
    keys,
    masks,
    scale,
    dim,
    BD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    bh = tl.program_id(1).to(tl.int64)
    b, h = bh // heads, bh % heads
    m_ = tl.program_id(0) * BM + tl.arange(0, BM)
    d_ = tl.arange(0, BD)
    inside = (m_[:, None] < queries) & (d_[None, :] < dim)
    qt = tl.load(q + b * qb + h * qh + m_[:, None] * ql + d_[None, :] * qd, mask=inside, other=0.0)
    m = tl.full((BM,), -float("inf"), tl.float32)
    s = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BD), tl.float32)
    for start in range(0, keys, BN):
        n_ = start + tl.arange(0, BN)
        here = (n_[:, None] < keys) & (d_[None, :] < dim)
        kt = tl.load(k + b * kb + h * kh + n_[:, None] * kl + d_[None, :] * kd, mask=here, other=0.0)
        vt = tl.load(v + b * vb + h * vh + n_[:, None] * vl + d_[None, :] * vd, mask=here, other=0.0)
        seen = tl.load(
            a + ((bh % masks) * queries + m_[:, None]) * keys + n_[None, :],
            mask=(m_[:, None] < queries) & (n_[None, :] < keys),
            other=0,
        )
        x = tl.dot(qt, tl.trans(kt), input_precision="ieee") * scale
        x = tl.where(seen != 0, x, -float("inf"))
        new = tl.maximum(m, tl.max(x, axis=1))
        safe = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp(x - safe[:, None])
        shrink = tl.exp(m - safe)
        s = s * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None] + tl.dot(p.to(vt.dtype), vt, input_precision="ieee")
        m = new
    tl.store(o + (bh * queries + m_[:, None]) * dim + d_[None, :], acc / s[:, None], mask=inside)


@variant(operation="attention", parameters={"masked": 1})
def attention(q, k, v, attn_mask, scale=None):
    batches, heads, queries, dim = q.shape
    keys = k.shape[2]
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        scale = 1 / math.sqrt(dim) if scale is None else scale
        a = attn_mask.reshape(-1, queries, keys).to(torch.int8).contiguous()
        kernel[(triton.cdiv(queries, 32), batches * heads)](
            o,
            q,
            k,
            v,
            a,
            *q.stride(),
            *k.stride(),
            *v.stride(),
            heads,
            queries,
            keys,
            a.shape[0],
            scale,
            dim,
            max(16, triton.next_power_of_2(dim)),
            32,
            32,
        )
    return o
