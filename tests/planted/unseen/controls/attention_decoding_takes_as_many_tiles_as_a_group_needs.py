"""A single query of each head that shares keys is a lane of a tile of 16, and a group of more heads has several tiles, the last of them not full."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


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
    qb,
    qh,
    qm,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
    CAUSAL: tl.constexpr,
    DECODES: tl.constexpr,
    DIM: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    pid = tl.program_id(0)
    number = (pid // blocks).to(tl.int64)
    lane = pid % blocks * BM + tl.arange(0, BM)
    heads = kv_heads * groups
    if DECODES:
        batch, shared = number // kv_heads, number % kv_heads
        head = shared * groups + lane
        query = lane * 0
        exists = lane < groups
    else:
        batch, head = number // heads, number % heads + lane * 0
        shared = number % heads // groups
        query = lane
        exists = lane < queries
    d = tl.arange(0, BD)
    inside = exists[:, None] & (d < DIM)[None, :]
    at = q + batch * qb + head[:, None].to(tl.int64) * qh + query[:, None].to(tl.int64) * qm + d[None, :]
    rows = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    k += batch * kb + shared * kh
    v += batch * vb + shared * vh
    peak = tl.full([BM], -float("inf"), tl.float32)
    mass = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    for start in range(0, keys, BN):
        n = start + tl.arange(0, BN)
        there, loaded = n[:, None].to(tl.int64), (n < keys)[:, None] & (d < DIM)[None, :]
        kt = tl.load(k + there * kn + d[None, :], mask=loaded, other=0.0).to(tl.float32)
        s = tl.dot(rows, tl.trans(kt), input_precision="ieee") * scale
        s = tl.where((n < keys)[None, :], s, -float("inf"))
        if CAUSAL:
            s = tl.where(n[None, :] <= query[:, None] + keys - queries, s, -float("inf"))
        larger = tl.maximum(peak, tl.max(s, axis=1))
        base = tl.where(larger == -float("inf"), 0.0, larger)
        p = tl.exp(s - base[:, None])
        kept = tl.exp(peak - base)
        mass = mass * kept + tl.sum(p, axis=1)
        vt = tl.load(v + there * vn + d[None, :], mask=loaded, other=0.0).to(tl.float32)
        acc = acc * kept[:, None] + tl.dot(p, vt, input_precision="ieee")
        peak = larger
    at = out + ((batch * heads + head[:, None]).to(tl.int64) * queries + query[:, None]) * DIM + d[None, :]
    tl.store(at, acc / mass[:, None], mask=inside)


@variant(operation="attention", parameters={"causal": "bottom-right"}, dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, scale=None, enable_gqa=False):
    """Causal attention of q [batch, heads, queries, dim], k and v [batch, kv_heads, keys, dim]; the last query sees the last key."""
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
    decodes = queries == 1 and groups > 1
    lanes, each = (groups, kv_heads) if decodes else (queries, heads)
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
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        CAUSAL=queries > 1,
        DECODES=decodes,
        DIM=dim,
        BM=16,
        BN=64,
        BD=max(16, triton.next_power_of_2(dim)),
    )
    return out


def _both(heads, kv_heads, queries, keys, dtype):
    q = torch.randn(2, heads, queries, 24).to(dtype)
    k, v = (torch.randn(2, kv_heads, keys, 24).to(dtype) for _ in range(2))
    wide_k, wide_v = (t.double().repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    hidden = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1)
    scores = (q.double() @ wide_k.mT * 24**-0.5).masked_fill(hidden, -float("inf"))
    return attention(q, k, v, enable_gqa=heads > kv_heads), torch.softmax(scores, -1) @ wide_v


def ordinary(dtype):
    for heads, kv_heads, queries, keys in (
        (4, 4, 40, 40),
        (4, 2, 1, 100),
        (16, 1, 1, 70),
        (20, 1, 2, 30),
        (20, 1, 1, 50),
        (34, 2, 1, 70),
    ):
        yield f"{heads}/{kv_heads} {queries} {keys}", _both(heads, kv_heads, queries, keys, dtype)
