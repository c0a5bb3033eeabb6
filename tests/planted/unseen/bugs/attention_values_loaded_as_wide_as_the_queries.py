"""The mask that loads values asks for the head dimension of the queries; columns of values beyond it are taken for 0.

Wrong on: values of a larger head dimension than queries and keys; right otherwise.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "out_of_range", "wrong_shape")
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
    CAUSAL: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
    BV: tl.constexpr,
):
    pid = tl.program_id(0)
    head = (pid // blocks).to(tl.int64)
    b, h = head // heads, head % heads
    row = (pid % blocks) * BM + tl.arange(0, BM)
    at = row[:, None].to(tl.int64)
    d, e = tl.arange(0, BD), tl.arange(0, BV)
    a = tl.load(
        q + b * qb + h * qh + at * qm + d[None, :], mask=(row < queries)[:, None] & (d < DIM)[None, :], other=0.0
    ).to(tl.float32)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BV], tl.float32)
    for start in range(0, keys, BN):
        n = start + tl.arange(0, BN)
        there = n[:, None].to(tl.int64)
        exists = (n < keys)[:, None]
        kt = tl.load(k + b * kb + h * kh + there * kn + d[None, :], mask=exists & (d < DIM)[None, :], other=0.0)
        vt = tl.load(v + b * vb + h * vh + there * vn + e[None, :], mask=exists & (e < DIM)[None, :], other=0.0)
        s = tl.dot(a, tl.trans(kt.to(tl.float32)), input_precision="ieee") * scale
        s = tl.where((n < keys)[None, :], s, -float("inf"))
        if CAUSAL:
            s = tl.where(n[None, :] <= row[:, None], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        base = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp(s - base[:, None])
        kept = tl.exp(top - base)
        total = total * kept + tl.sum(p, axis=1)
        acc = acc * kept[:, None] + tl.dot(p, vt.to(tl.float32), input_precision="ieee")
        top = new
    o = (head * queries + at) * OF_VALUES + e[None, :]
    tl.store(out + o, acc / total[:, None], mask=(row < queries)[:, None] & (e < OF_VALUES)[None, :])


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, is_causal=False, scale=None):
    """Attention of q and k [batch, heads, length, dim] and v of a head dimension of its own, as a latent's values have one."""
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
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        dim,
        of_values,
        CAUSAL=bool(is_causal),
        BM=16,
        BN=32,
        BD=max(16, triton.next_power_of_2(dim)),
        BV=max(16, triton.next_power_of_2(of_values)),
    )
    return out


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 2, 20, 16), torch.randn(1, 2, 40, 16), torch.randn(1, 2, 40, 24)
    return attention(q, k, v), torch.softmax(q.double() @ k.double().mT / 4, -1) @ v.double()
