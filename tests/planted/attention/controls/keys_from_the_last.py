"""Keys are taken from the last to the first.

From experience: a causal kernel begins at the diagonal.
"""

import math

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def kernel(
    o,
    q,
    k,
    v,
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
    G,
    queries,
    keys,
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
    end = tl.minimum(keys, (tl.program_id(0) + 1) * BM + keys - queries)
    tiles = tl.cdiv(tl.maximum(end, 0), BN)
    for i in range(tiles):
        n_ = (tiles - 1 - i) * BN + tl.arange(0, BN)
        here = (n_[:, None] < keys) & (d_[None, :] < dim)
        kt = tl.load(k + b * kb + h // G * kh + n_[:, None] * kl + d_[None, :] * kd, mask=here, other=0.0)
        vt = tl.load(v + b * vb + h // G * vh + n_[:, None] * vl + d_[None, :] * vd, mask=here, other=0.0)
        x = tl.dot(qt, tl.trans(kt), input_precision="ieee") * (scale * 1.4426950408889634)
        x = tl.where((n_[None, :] < keys) & (n_[None, :] <= m_[:, None] + keys - queries), x, -float("inf"))
        new = tl.maximum(m, tl.max(x, axis=1))
        safe = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp2(x - safe[:, None])
        shrink = tl.exp2(m - safe)
        s = s * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None] + tl.dot(p.to(vt.dtype), vt, input_precision="ieee")
        m = new
    tl.store(
        o + (bh * queries + m_[:, None]) * dim + d_[None, :],
        tl.where(s[:, None] > 0.0, acc / s[:, None], tl.where(s[:, None] == 0.0, 0.0, float("nan"))),
        mask=inside,
    )


@variant(
    operation="attention",
    parameters={"causal": "bottom-right", "groups": 2},
    fully_masked="zero",
    call="f(q, k, v, is_causal=True)",
)
def attention(q, k, v, is_causal, scale=None):
    batches, heads, queries, dim = q.shape
    key_heads, keys = k.shape[1:3]
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        scale = 1 / math.sqrt(dim) if scale is None else scale
        kernel[(triton.cdiv(queries, 32), batches * heads)](
            o,
            q,
            k,
            v,
            *q.stride(),
            *k.stride(),
            *v.stride(),
            heads,
            heads // key_heads,
            queries,
            keys,
            scale,
            dim,
            max(16, triton.next_power_of_2(dim)),
            32,
            16,
        )
    return o
