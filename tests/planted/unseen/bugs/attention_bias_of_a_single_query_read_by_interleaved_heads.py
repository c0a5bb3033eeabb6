"""A single query of each head that shares keys is a lane of one tile; its bias is that of the head ``lane * kv_heads + kv``, where queries have ``kv * groups + lane``.

Wrong on: one query, shared heads, two or more heads of keys, and a bias that is another one for each head; right otherwise.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "out_of_range")
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
    bb,
    bh,
    bm,
    bn,
    DIM: tl.constexpr,
    SINGLE: tl.constexpr,
    BIASED: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    pid = tl.program_id(0)
    shared = (pid // blocks).to(tl.int64)
    lane = (pid % blocks) * BM + tl.arange(0, BM)
    if SINGLE:
        b, kv = shared // kv_heads, shared % kv_heads
        head = kv * groups + lane
        of_bias = lane * kv_heads + kv
        query = lane * 0
        exists = lane < groups
    else:
        b, head = shared // (kv_heads * groups), shared % (kv_heads * groups) + lane * 0
        kv = shared % (kv_heads * groups) // groups
        of_bias = head
        query = lane
        exists = lane < queries
    d = tl.arange(0, BD)
    inside = exists[:, None] & (d < DIM)[None, :]
    place = head[:, None].to(tl.int64) * qh + query[:, None].to(tl.int64) * qm
    a = tl.load(q + b * qb + place + d[None, :], mask=inside, other=0.0).to(tl.float32)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    for start in range(0, keys, BN):
        n = start + tl.arange(0, BN)
        there = n[:, None].to(tl.int64)
        loaded = (n < keys)[:, None] & (d < DIM)[None, :]
        kt = tl.load(k + b * kb + kv * kh + there * kn + d[None, :], mask=loaded, other=0.0).to(tl.float32)
        vt = tl.load(v + b * vb + kv * vh + there * vn + d[None, :], mask=loaded, other=0.0).to(tl.float32)
        s = tl.dot(a, tl.trans(kt), input_precision="ieee") * scale
        if BIASED:
            of_row = of_bias[:, None].to(tl.int64) * bh + query[:, None].to(tl.int64) * bm
            wanted = exists[:, None] & (n < keys)[None, :]
            s += tl.load(bias + b * bb + of_row + n[None, :].to(tl.int64) * bn, mask=wanted, other=0.0).to(tl.float32)
        s = tl.where((n < keys)[None, :], s, -float("inf"))
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


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, bias=None, scale=None, enable_gqa=False):
    """Attention of q [batch, heads, queries, dim], k and v [batch, kv_heads, keys, dim], and a bias that may be broadcast.

    A single query is packed with those of the heads that share its keys.
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
    is_single = groups > 1 and queries == 1
    lanes, each = (groups, kv_heads) if is_single else (queries, heads)
    blocks = triton.cdiv(lanes, 16)
    of_bias = (0, 0, 0, 0) if bias is None else bias.expand(batch, heads, queries, keys).stride()
    _attend[(batch * each * blocks,)](
        out,
        q,
        k,
        v,
        q if bias is None else bias,
        kv_heads,
        groups,
        queries,
        keys,
        blocks,
        dim**-0.5 if scale is None else scale,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        *of_bias,
        dim,
        SINGLE=is_single,
        BIASED=bias is not None,
        BM=16,
        BN=64,
        BD=max(16, triton.next_power_of_2(dim)),
    )
    return out


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 1, 16), torch.randn(1, 2, 50, 16), torch.randn(1, 2, 50, 16)
    bias = torch.randn(1, 4, 1, 50)
    keys, values = (each.double().repeat_interleave(2, 1) for each in (k, v))
    exact = torch.softmax(q.double() @ keys.mT / 4 + bias.double(), -1) @ values
    return attention(q, k, v, bias, enable_gqa=True), exact
