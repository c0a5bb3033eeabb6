"""The sink is the first running maximum with a sum of 1, so that a query which sees no key gives 0.

From experience: gpt-oss has sinks and windows, and a window may be empty.
"""

import math

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def tanh(v):
    e = tl.exp(-2.0 * tl.abs(v))
    return tl.where(v < 0, -1.0, 1.0) * (1.0 - e) / (1.0 + e)


@triton.jit
def kernel(
    o,
    q,
    k,
    v,
    sinks,
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
    groups,
    queries,
    keys,
    scale,
    cap,
    window,
    dim,
    BD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    bh = tl.program_id(1).to(tl.int64)
    b, h = bh // heads, bh % heads
    m_ = tl.program_id(0) * BM + tl.arange(0, BM)
    place = m_ + keys - queries
    d_ = tl.arange(0, BD)
    inside = (m_[:, None] < queries) & (d_[None, :] < dim)
    qt = tl.load(q + b * qb + h * qh + m_[:, None] * ql + d_[None, :] * qd, mask=inside, other=0.0)
    m = tl.zeros((BM,), tl.float32) + tl.load(sinks + h).to(tl.float32)
    s = tl.zeros((BM,), tl.float32) + 1.0
    acc = tl.zeros((BM, BD), tl.float32)
    first = tl.maximum(tl.program_id(0) * BM + keys - queries - window + 1, 0) // BN * BN
    end = tl.minimum(keys, (tl.program_id(0) + 1) * BM + keys - queries)
    for start in range(first, end, BN):
        n_ = start + tl.arange(0, BN)
        here = (n_[:, None] < keys) & (d_[None, :] < dim)
        kt = tl.load(k + b * kb + h // groups * kh + n_[:, None] * kl + d_[None, :] * kd, mask=here, other=0.0)
        vt = tl.load(v + b * vb + h // groups * vh + n_[:, None] * vl + d_[None, :] * vd, mask=here, other=0.0)
        x = cap * tanh(tl.dot(qt, tl.trans(kt), input_precision="ieee") * scale / cap)
        seen = (n_[None, :] < keys) & (n_[None, :] <= place[:, None]) & (n_[None, :] > place[:, None] - window)
        x = tl.where(seen, x, -float("inf"))
        new = tl.maximum(m, tl.max(x, axis=1))
        p = tl.exp(x - new[:, None])
        shrink = tl.exp(m - new)
        s = s * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None] + tl.dot(p.to(vt.dtype), vt, input_precision="ieee")
        m = new
    tl.store(o + (bh * queries + m_[:, None]) * dim + d_[None, :], acc / s[:, None], mask=inside)


@variant(
    operation="attention", parameters={"causal": "bottom-right", "window": 20, "softcap": 15, "sink": 0.5, "groups": 2}
)
def attention(q, k, v, sinks, softcap=15.0, window=20):
    batches, heads, queries, dim = q.shape
    key_heads, keys = k.shape[1:3]
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        kernel[(triton.cdiv(queries, 32), batches * heads)](
            o,
            q,
            k,
            v,
            sinks,
            *q.stride(),
            *k.stride(),
            *v.stride(),
            heads,
            heads // key_heads,
            queries,
            keys,
            1 / math.sqrt(dim),
            softcap,
            window,
            dim,
            max(16, triton.next_power_of_2(dim)),
            32,
            16,
        )
    return o
