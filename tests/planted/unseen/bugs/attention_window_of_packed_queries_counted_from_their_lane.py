"""A few queries of all heads that share keys are the lanes of one tile; where the window begins is counted from the lane, not from its query.

Wrong on: shared heads, at most 16 queries, a window, and more keys than it has; right otherwise.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "out_of_range", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

FEW_QUERIES = 16


@triton.jit
def _attend(
    out,
    q,
    k,
    v,
    kv_heads,
    groups,
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
    PACKED: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    pid = tl.program_id(0)
    block = pid % blocks
    shared = (pid // blocks).to(tl.int64)
    lane = block * BM + tl.arange(0, BM)
    if PACKED:
        b, kv = shared // kv_heads, shared % kv_heads
        head = kv * groups + lane // queries
        query = lane % queries
        exists = lane < queries * groups
    else:
        b, head = shared // (kv_heads * groups), shared % (kv_heads * groups) + lane * 0
        kv = shared % (kv_heads * groups) // groups
        query = lane
        exists = lane < queries
    d = tl.arange(0, BD)
    inside = exists[:, None] & (d < DIM)[None, :]
    place = head[:, None].to(tl.int64) * qh + query[:, None].to(tl.int64) * qm
    a = tl.load(q + b * qb + place + d[None, :], mask=inside, other=0.0).to(tl.float32)
    last = query + keys - queries
    first = lane + keys - queries - window
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    end = keys
    if not PACKED:
        end = tl.minimum(keys, block * BM + BM + keys - queries)
    for start in range(0, end, BN):
        n = start + tl.arange(0, BN)
        there = n[:, None].to(tl.int64)
        loaded = (n < keys)[:, None] & (d < DIM)[None, :]
        kt = tl.load(k + b * kb + kv * kh + there * kn + d[None, :], mask=loaded, other=0.0).to(tl.float32)
        vt = tl.load(v + b * vb + kv * vh + there * vn + d[None, :], mask=loaded, other=0.0).to(tl.float32)
        s = tl.dot(a, tl.trans(kt), input_precision="ieee") * scale
        seen = (n[None, :] <= last[:, None]) & (n[None, :] > first[:, None]) & (n < keys)[None, :]
        s = tl.where(seen, s, -float("inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        base = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp(s - base[:, None])
        kept = tl.exp(top - base)
        total = total * kept + tl.sum(p, axis=1)
        acc = acc * kept[:, None] + tl.dot(p, vt, input_precision="ieee")
        top = new
    heads = kv_heads * groups
    o = ((b * heads + head[:, None]).to(tl.int64) * queries + query[:, None]) * DIM + d[None, :]
    tl.store(out + o, acc / total[:, None], mask=inside)


@variant(operation="attention", parameters={"causal": "bottom-right"}, dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, window=0, scale=None, enable_gqa=False):
    """Causal attention of q [batch, heads, queries, dim], k and v [batch, kv_heads, keys, dim]; the last query sees the last key.

    ``window`` is the number of keys that a query sees up to its own place, 0 for all. A few queries are packed, so that the keys of their heads are read once.
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
    q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
    groups = heads // kv_heads
    is_packed = groups > 1 and queries <= FEW_QUERIES
    lanes, each = (queries * groups, kv_heads) if is_packed else (queries, heads)
    blocks = triton.cdiv(lanes, 16)
    _attend[(batch * each * blocks,)](
        out,
        q,
        k,
        v,
        kv_heads,
        groups,
        queries,
        keys,
        blocks,
        dim**-0.5 if scale is None else scale,
        window or queries * groups + keys,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        dim,
        PACKED=is_packed,
        BM=16,
        BN=64,
        BD=max(16, triton.next_power_of_2(dim)),
    )
    return out


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 5, 16), torch.randn(1, 2, 60, 16), torch.randn(1, 2, 60, 16)
    keys, values = (each.double().repeat_interleave(2, 1) for each in (k, v))
    seen = torch.ones(5, 60, dtype=torch.bool).tril(55).triu(36)
    scores = (q.double() @ keys.mT / 4).masked_fill(~seen, -float("inf"))
    return attention(q, k, v, window=20, enable_gqa=True), torch.softmax(scores, -1) @ values
