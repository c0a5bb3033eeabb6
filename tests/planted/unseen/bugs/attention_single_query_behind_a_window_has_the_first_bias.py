"""A single query needs no more keys than its window, so that keys and values are cut to the last ones; the bias is not, and gives its first columns.

Wrong on: one query, a window shorter than the keys, and a bias that varies along the keys; right with more queries, or without one of these.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "out_of_range", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _attend(
    out,
    q,
    k,
    v,
    bias,
    heads,
    groups,
    queries,
    keys,
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
    bb,
    bh,
    bm,
    bn,
    BIASED: tl.constexpr,
    DIM: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    number = tl.program_id(1).to(tl.int64)
    batch, head = number // heads, number % heads
    block = tl.program_id(0) * BM
    query, d = block + tl.arange(0, BM), tl.arange(0, BD)
    inside = (query < queries)[:, None] & (d < DIM)[None, :]
    q += batch * qb + head * qh
    k += batch * kb + head // groups * kh
    v += batch * vb + head // groups * vh
    rows = tl.load(q + query[:, None].to(tl.int64) * qm + d[None, :], mask=inside, other=0.0).to(tl.float32)
    place = query + keys - queries
    peak = tl.full([BM], -float("inf"), tl.float32)
    mass = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    begin = tl.maximum(0, block + keys - queries - window + 1) // BN * BN
    end = tl.minimum(keys, block + BM + keys - queries)
    for start in range(begin, end, BN):
        n = start + tl.arange(0, BN)
        there, exists = n[:, None].to(tl.int64), (n < keys)[:, None] & (d < DIM)[None, :]
        kt = tl.load(k + there * kn + d[None, :], mask=exists, other=0.0).to(tl.float32)
        s = tl.dot(rows, tl.trans(kt), input_precision="ieee") * scale
        seen = (n < keys)[None, :] & (n[None, :] <= place[:, None]) & (n[None, :] > place[:, None] - window)
        if BIASED:
            at = bias + batch * bb + head * bh + query[:, None].to(tl.int64) * bm + n[None, :].to(tl.int64) * bn
            s += tl.load(at, mask=seen & (query < queries)[:, None], other=0.0).to(tl.float32)
        s = tl.where(seen, s, -float("inf"))
        larger = tl.maximum(peak, tl.max(s, axis=1))
        base = tl.where(larger == -float("inf"), 0.0, larger)
        p = tl.exp(s - base[:, None])
        kept = tl.exp(peak - base)
        mass = mass * kept + tl.sum(p, axis=1)
        vt = tl.load(v + there * vn + d[None, :], mask=exists, other=0.0).to(tl.float32)
        acc = acc * kept[:, None] + tl.dot(p, vt, input_precision="ieee")
        peak = larger
    at = out + (number * queries + query[:, None]) * DIM + d[None, :]
    tl.store(at, acc / mass[:, None], mask=inside)


@variant(operation="attention", parameters={"causal": "bottom-right"}, dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, bias=None, window=0, scale=None, enable_gqa=False):
    """Causal attention of q [batch, heads, queries, dim], k and v [batch, kv_heads, keys, dim]; the last query sees the last key.

    ``window`` is the number of keys that a query sees up to its own place, 0 for all. ``bias`` is added to the scaled scores, and may be broadcast.
    """
    batch, heads, queries, dim = q.shape
    kv_heads, keys = k.shape[1:3]
    if heads != kv_heads and not (enable_gqa and heads % kv_heads == 0):
        raise ValueError(f"{heads} heads of queries and {kv_heads} of keys")
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if not out.numel():
        return out
    if keys == 0:
        return out.fill_(float("nan"))
    steps = (0, 0, 0, 0) if bias is None else bias.expand(batch, heads, queries, keys).stride()
    if queries == 1 and 0 < window < keys:
        k, v = k[:, :, -window:], v[:, :, -window:]
        keys = window
    q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
    _attend[(triton.cdiv(queries, 16), batch * heads)](
        out,
        q,
        k,
        v,
        q if bias is None else bias,
        heads,
        heads // kv_heads,
        queries,
        keys,
        dim**-0.5 if scale is None else scale,
        window or queries + keys,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        *steps,
        BIASED=bias is not None,
        DIM=dim,
        BM=16,
        BN=64,
        BD=max(16, triton.next_power_of_2(dim)),
    )
    return out


def _both(q, k, v, bias=None, window=0):
    queries, keys, groups = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    wide_k, wide_v = (t.double().repeat_interleave(groups, 1) for t in (k, v))
    scores = q.double() @ wide_k.mT * q.shape[-1] ** -0.5 + (0.0 if bias is None else bias.double())
    seen = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    seen = seen.triu(keys - queries - window + 1) if window else seen
    exact = torch.softmax(scores.masked_fill(~seen, -float("inf")), -1) @ wide_v
    return attention(q, k, v, bias, window, enable_gqa=groups > 1), exact


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 2, 1, 16), torch.randn(1, 2, 60, 16), torch.randn(1, 2, 60, 16)
    return _both(q, k, v, torch.randn(1, 2, 1, 60), 20)


def ordinary(dtype):
    for queries, keys, window, is_biased in (
        (40, 40, 20, True),
        (1, 100, 0, True),
        (1, 100, 20, False),
        (2, 90, 20, True),
        (1, 20, 20, True),
    ):
        q = torch.randn(2, 2, queries, 24).to(dtype)
        k, v = (torch.randn(2, 1, keys, 24).to(dtype) for _ in range(2))
        bias = torch.randn(2, 2, queries, keys).to(dtype) if is_biased else None
        yield f"{queries} {keys} {window} {is_biased}", _both(q, k, v, bias, window)
