"""Tiles that all queries of a block see are not masked; that a tile lies inside the window is asked for the block's first query, where it should be for its last.

Wrong on: a window of more than 16 keys, no multiple of 16, and more queries than it has; right otherwise.
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
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    pid = tl.program_id(0)
    head = (pid // blocks).to(tl.int64)
    b, h = head // heads, head % heads
    first = (pid % blocks) * BM
    row = first + tl.arange(0, BM)
    d = tl.arange(0, BD)
    at = row[:, None].to(tl.int64)
    inside = (row < queries)[:, None] & (d < DIM)[None, :]
    a = tl.load(q + b * qb + h * qh + at * qm + d[None, :], mask=inside, other=0.0).to(tl.float32)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    end = tl.minimum(keys, first + BM)
    begin = tl.maximum(0, first - window + 1) // BN * BN
    for start in range(begin, end, BN):
        n = start + tl.arange(0, BN)
        there = n[:, None].to(tl.int64)
        exists = (n < keys)[:, None] & (d < DIM)[None, :]
        kt = tl.load(k + b * kb + h * kh + there * kn + d[None, :], mask=exists, other=0.0).to(tl.float32)
        vt = tl.load(v + b * vb + h * vh + there * vn + d[None, :], mask=exists, other=0.0).to(tl.float32)
        s = tl.dot(a, tl.trans(kt), input_precision="ieee") * scale
        is_whole = (start > first - window) & (start + BN <= first + 1) & (start + BN <= keys)
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
    o = (head * queries + at) * DIM + d[None, :]
    tl.store(out + o, acc / total[:, None], mask=inside)


@variant(operation="attention", parameters={"causal": "top-left"}, dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, window=0, scale=None):
    """Causal attention of [batch, heads, length, dim]; a query sees the last ``window`` keys up to its own place, 0 for all."""
    batch, heads, queries, dim = q.shape
    keys = k.shape[2]
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
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
        BM=16,
        BN=16,
        BD=max(16, triton.next_power_of_2(dim)),
    )
    return out


def demonstrate():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 80, 16) for _ in range(3))
    seen = torch.ones(80, 80, dtype=torch.bool).tril().triu(-19)
    scores = (q.double() @ k.double().mT / 4).masked_fill(~seen, -float("inf"))
    return attention(q, k, v, window=20), torch.softmax(scores, -1) @ v.double()
