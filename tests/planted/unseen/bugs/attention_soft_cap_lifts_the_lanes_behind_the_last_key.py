"""Lanes behind the last key score -inf before the soft cap, which makes minus the cap of it: they take their share of each query.

Wrong on: a soft cap (5, say; with 30 the share is within rounding) and keys that are no multiple of 32; right otherwise.
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
def _tanh(z):
    a = tl.abs(z)
    t = tl.exp(-2 * a)
    far = (1 - t) / (1 + t)
    w = z * z
    near = a * (1 + w * (-1.0 / 3 + w * (2.0 / 15 + w * (-17.0 / 315 + w * (62.0 / 2835)))))
    r = tl.where(a < 0.1, near, far)
    return tl.where(z < 0, -r, r)


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
    cap,
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
    CAUSAL: tl.constexpr,
    CAPPED: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    pid = tl.program_id(0)
    head = (pid // blocks).to(tl.int64)
    b, h = head // heads, head % heads
    row = (pid % blocks) * BM + tl.arange(0, BM)
    d = tl.arange(0, BD)
    at = row[:, None].to(tl.int64)
    inside = (row < queries)[:, None] & (d < DIM)[None, :]
    a = tl.load(q + b * qb + h * qh + at * qm + d[None, :], mask=inside, other=0.0).to(tl.float32)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    end = keys
    if CAUSAL:
        end = tl.minimum(keys, (pid % blocks) * BM + BM)
    for start in range(0, end, BN):
        n = start + tl.arange(0, BN)
        there = n[:, None].to(tl.int64)
        exists = (n < keys)[:, None] & (d < DIM)[None, :]
        kt = tl.load(k + b * kb + h * kh + there * kn + d[None, :], mask=exists, other=0.0).to(tl.float32)
        vt = tl.load(v + b * vb + h * vh + there * vn + d[None, :], mask=exists, other=0.0).to(tl.float32)
        s = tl.dot(a, tl.trans(kt), input_precision="ieee") * scale
        if start + BN > keys:
            s = tl.where((n < keys)[None, :], s, -float("inf"))
        if CAPPED:
            s = cap * _tanh(s / cap)
        if CAUSAL:
            s = tl.where(n[None, :] <= row[:, None], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        base = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp(s - base[:, None])
        kept = tl.exp(top - base)
        total = total * kept + tl.sum(p, axis=1)
        acc = acc * kept[:, None] + tl.dot(p, vt, input_precision="ieee")
        top = new
    o = (head * queries + at) * DIM + d[None, :]
    tl.store(out + o, acc / total[:, None], mask=inside)


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, is_causal=False, scale=None, softcap=0.0):
    """Attention of q, k and v [batch, heads, length, dim] with a soft cap; is_causal is torch's, and a cap of 0 is none."""
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
        float(softcap) or 1.0,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        dim,
        CAUSAL=bool(is_causal),
        CAPPED=softcap > 0,
        BM=16,
        BN=32,
        BD=max(16, triton.next_power_of_2(dim)),
    )
    return out


def demonstrate():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, length, 16) for length in (20, 40, 40))
    scores = 5 * torch.tanh(q.double() @ k.double().mT / 4 / 5)
    return attention(q, k, v, softcap=5.0), torch.softmax(scores, -1) @ v.double()
