"""A few queries of all heads that share keys are the rows of one tile; windows skip tiles of keys, and a query's first tiles may hold nothing that it sees."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

FEW_QUERIES, LONG_CACHE = 16, 128


@triton.jit
def _attend(
    out,
    lse,
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
        row = lane % queries
        exists = lane < queries * groups
    else:
        b, head = shared // (kv_heads * groups), shared % (kv_heads * groups) + lane * 0
        kv = shared % (kv_heads * groups) // groups
        row = lane
        exists = lane < queries
    d = tl.arange(0, BD)
    inside = exists[:, None] & (d < DIM)[None, :]
    place = head[:, None].to(tl.int64) * qh + row[:, None].to(tl.int64) * qm
    a = tl.load(q + b * qb + place + d[None, :], mask=inside, other=0.0).to(tl.float32)
    last = row + keys - queries
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    first = 0
    end = keys
    if not PACKED:
        end = tl.minimum(keys, block * BM + BM + keys - queries)
        first = tl.maximum(block * BM + keys - queries - window + 1, 0) // BN * BN
    else:
        first = tl.maximum(keys - queries - window + 1, 0) // BN * BN
    for start in range(first, end, BN):
        n = start + tl.arange(0, BN)
        there = n[:, None].to(tl.int64)
        loaded = (n < keys)[:, None] & (d < DIM)[None, :]
        kt = tl.load(k + b * kb + kv * kh + there * kn + d[None, :], mask=loaded, other=0.0).to(tl.float32)
        vt = tl.load(v + b * vb + kv * vh + there * vn + d[None, :], mask=loaded, other=0.0).to(tl.float32)
        s = tl.dot(a, tl.trans(kt), input_precision="ieee") * scale
        s = tl.where(
            (n[None, :] <= last[:, None]) & (n[None, :] > last[:, None] - window) & (n < keys)[None, :],
            s,
            -float("inf"),
        )
        new = tl.maximum(top, tl.max(s, axis=1))
        base = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp(s - base[:, None])
        kept = tl.exp(top - base)
        total = total * kept + tl.sum(p, axis=1)
        acc = acc * kept[:, None] + tl.dot(p, vt, input_precision="ieee")
        top = new
    heads = kv_heads * groups
    o = ((b * heads + head[:, None]).to(tl.int64) * queries + row[:, None]) * DIM + d[None, :]
    tl.store(lse + (b * heads + head) * queries + row, top + tl.log(total), mask=exists)
    tl.store(out + o, acc / total[:, None], mask=inside)


@variant(operation="attention", parameters={"causal": "bottom-right"}, dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, scale=None, enable_gqa=False, window=0):
    """Causal attention of q [batch, heads, queries, dim], k and v [batch, kv_heads, keys, dim], and its log-sum-exp.

    The last query sees the last key, and a window of keys where it is asked for.
    """
    batch, heads, queries, dim = q.shape
    kv_heads, keys = k.shape[1:3]
    if heads != kv_heads and not (enable_gqa and heads % kv_heads == 0):
        raise ValueError(f"{heads} heads of queries and {kv_heads} of keys")
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.full(q.shape[:-1], -float("inf"), dtype=torch.float32, device=q.device)
    if not out.numel() or keys == 0:
        return out.fill_(float("nan")), lse
    q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
    groups = heads // kv_heads
    is_packed = groups > 1 and queries <= FEW_QUERIES and keys >= LONG_CACHE
    lanes, each = (queries * groups, kv_heads) if is_packed else (queries, heads)
    blocks = triton.cdiv(lanes, 16)
    _attend[(batch * each * blocks,)](
        out,
        lse,
        q,
        k,
        v,
        kv_heads,
        groups,
        queries,
        keys,
        blocks,
        dim**-0.5 if scale is None else scale,
        window or keys + queries,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        dim,
        PACKED=is_packed,
        BM=16,
        BN=64,
        BD=max(16, triton.next_power_of_2(dim)),
    )
    return out, lse
