"""Tiles that all queries of a block see are not masked, by its first and its last query, and are visited from the last; values may have a head dimension of their own."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _attend(
    out,
    q,
    k,
    v,
    heads,
    queries,
    keys,
    blocks,
    scale,
    window,
    qb,
    qh,
    qm,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
    DIM: tl.constexpr,
    OF_VALUES: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
    BV: tl.constexpr,
):
    pid = tl.program_id(0)
    head = (pid // blocks).to(tl.int64)
    b, h = head // heads, head % heads
    first = (pid % blocks) * BM
    row = first + tl.arange(0, BM)
    d, e = tl.arange(0, BD), tl.arange(0, BV)
    at = row[:, None].to(tl.int64)
    inside = (row < queries)[:, None] & (d < DIM)[None, :]
    a = tl.load(q + b * qb + h * qh + at * qm + d[None, :], mask=inside, other=0.0).to(tl.float32)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BV], tl.float32)
    end = tl.minimum(keys, first + BM)
    begin = tl.maximum(0, first - window + 1) // BN * BN
    parts = tl.cdiv(end - begin, BN)
    for part in range(parts):
        start = begin + (parts - 1 - part) * BN
        n = start + tl.arange(0, BN)
        there = n[:, None].to(tl.int64)
        exists = (n < keys)[:, None] & (d < DIM)[None, :]
        kt = tl.load(k + b * kb + h * kh + there * kn + d[None, :], mask=exists, other=0.0).to(tl.float32)
        of_value = (n < keys)[:, None] & (e < OF_VALUES)[None, :]
        vt = tl.load(v + b * vb + h * vh + there * vn + e[None, :], mask=of_value, other=0.0).to(tl.float32)
        s = tl.dot(a, tl.trans(kt), input_precision="ieee") * scale
        is_whole = (start > first + BM - 1 - window) & (start + BN <= first + 1) & (start + BN <= keys)
        if not is_whole:
            seen = (n[None, :] <= row[:, None]) & (n[None, :] > row[:, None] - window) & (n < keys)[None, :]
            s = tl.where(seen, s, -float("inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        base = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp(s - base[:, None])
        kept = tl.exp(top - base)
        total = total * kept + tl.sum(p, axis=1)
        acc = acc * kept[:, None] + tl.dot(p, vt, input_precision="ieee")
        top = new
    o = (head * queries + at) * OF_VALUES + e[None, :]
    tl.store(out + o, acc / total[:, None], mask=(row < queries)[:, None] & (e < OF_VALUES)[None, :])


@variant(operation="attention", parameters={"causal": "top-left"}, dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, window=0, scale=None):
    """Causal attention of [batch, heads, length, dim]; a query sees the last ``window`` keys up to its own place, 0 for all; v may have another dim."""
    batch, heads, queries, dim = q.shape
    keys, of_values = v.shape[2:]
    out = torch.empty(batch, heads, queries, of_values, dtype=q.dtype, device=q.device)
    if not out.numel():
        return out
    if keys == 0:
        return out.fill_(float("nan"))
    q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
    blocks = triton.cdiv(queries, 16)
    _attend[(batch * heads * blocks,)](
        out,
        q,
        k,
        v,
        heads,
        queries,
        keys,
        blocks,
        dim**-0.5 if scale is None else scale,
        window or max(queries, keys) + 16,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        dim,
        of_values,
        BM=16,
        BN=16,
        BD=max(16, triton.next_power_of_2(dim)),
        BV=max(16, triton.next_power_of_2(of_values)),
    )
    return out
