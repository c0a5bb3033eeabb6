"""A single query goes to a kernel for decoding, which takes the scale and the sizes, and not the soft cap.

Wrong on: one query, and a soft cap that matters; right otherwise.
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
    e = tl.exp(-2.0 * tl.abs(z))
    t = (1.0 - e) / (1.0 + e)
    # Near 0 the difference above loses digits.
    small = z * (1.0 - z * z * (1.0 / 3.0 - z * z * (2.0 / 15.0 - z * z * (17.0 / 315.0 - z * z * (62.0 / 2835.0)))))
    return tl.where(tl.abs(z) < 0.125, small, tl.where(z < 0.0, -t, t))


@triton.jit
def _attend(
    out,
    q,
    k,
    v,
    heads,
    shared,
    queries,
    keys,
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
    CAPPED: tl.constexpr,
    CAUSAL: tl.constexpr,
    DIM: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    b, h = head // heads, head % heads
    of_keys = h // (heads // shared)
    row, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BD)
    inside = (row < queries)[:, None] & (d < DIM)[None, :]
    a = tl.load(q + b * qb + h * qh + row[:, None].to(tl.int64) * qm + d[None, :], mask=inside, other=0.0).to(
        tl.float32
    )
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    for start in range(0, keys, BN):
        n = start + tl.arange(0, BN)
        there, exists = n[:, None].to(tl.int64), (n < keys)[:, None] & (d < DIM)[None, :]
        kt = tl.load(k + b * kb + of_keys * kh + there * kn + d[None, :], mask=exists, other=0.0).to(tl.float32)
        vt = tl.load(v + b * vb + of_keys * vh + there * vn + d[None, :], mask=exists, other=0.0).to(tl.float32)
        s = tl.dot(a, tl.trans(kt), input_precision="ieee") * scale
        if CAPPED:
            s = cap * _tanh(s / cap)
        s = tl.where((n < keys)[None, :], s, -float("inf"))
        if CAUSAL:
            s = tl.where(n[None, :] <= row[:, None], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        base = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp(s - base[:, None])
        kept = tl.exp(top - base)
        total = total * kept + tl.sum(p, axis=1)
        acc = acc * kept[:, None] + tl.dot(p, vt, input_precision="ieee")
        top = new
    o = (head * queries + row[:, None]) * DIM + d[None, :]
    tl.store(out + o, acc / total[:, None], mask=inside)


@triton.jit
def _decode(
    out,
    q,
    k,
    v,
    heads,
    shared,
    keys,
    scale,
    qb,
    qh,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
    DIM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    head = tl.program_id(0).to(tl.int64)
    b, h = head // heads, head % heads
    of_keys = h // (heads // shared)
    d = tl.arange(0, BD)
    a = tl.load(q + b * qb + h * qh + d, mask=d < DIM, other=0.0).to(tl.float32)
    top = -float("inf")
    total = 0.0
    acc = tl.zeros([BD], tl.float32)
    for start in range(0, keys, BN):
        n = start + tl.arange(0, BN)
        there, exists = n[:, None].to(tl.int64), (n < keys)[:, None] & (d < DIM)[None, :]
        kt = tl.load(k + b * kb + of_keys * kh + there * kn + d[None, :], mask=exists, other=0.0).to(tl.float32)
        vt = tl.load(v + b * vb + of_keys * vh + there * vn + d[None, :], mask=exists, other=0.0).to(tl.float32)
        s = tl.where(n < keys, tl.sum(kt * a[None, :], axis=1) * scale, -float("inf"))
        new = tl.maximum(top, tl.max(s, axis=0))
        base = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp(s - base)
        kept = tl.exp(top - base)
        total = total * kept + tl.sum(p, axis=0)
        acc = acc * kept + tl.sum(p[:, None] * vt, axis=0)
        top = new
    tl.store(out + head * DIM + d, acc / total, mask=d < DIM)


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, is_causal=False, scale=None, softcap=0.0, enable_gqa=False):
    """Attention of [batch, heads, length, dim], with torch's causal mask, a soft cap if it is not 0, and fewer heads of keys with ``enable_gqa``."""
    batch, heads, queries, dim = q.shape
    shared, keys = k.shape[1:3]
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if not out.numel():
        return out
    if keys == 0:
        return out.fill_(float("nan"))
    if shared != heads and not enable_gqa:
        raise ValueError("fewer heads of keys need enable_gqa")
    q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
    scale = dim**-0.5 if scale is None else scale
    wide = max(16, triton.next_power_of_2(dim))
    if queries == 1 and not is_causal:
        strides = *q.stride()[:2], *k.stride()[:3], *v.stride()[:3]
        _decode[(batch * heads,)](out, q, k, v, heads, shared, keys, scale, *strides, DIM=dim, BN=64, BD=wide)
        return out
    strides = *q.stride()[:3], *k.stride()[:3], *v.stride()[:3]
    options = {"CAPPED": bool(softcap), "CAUSAL": bool(is_causal), "DIM": dim, "BM": 16, "BN": 32, "BD": wide}
    grid = (triton.cdiv(queries, 16), batch * heads)
    _attend[grid](out, q, k, v, heads, shared, queries, keys, scale, softcap or 1.0, *strides, **options)
    return out


def _both(q, k, v, cap=0.0):
    s = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    s = cap * torch.tanh(s / cap) if cap else s
    return attention(q, k, v, softcap=cap), torch.softmax(s, -1) @ v.double()


def demonstrate():
    torch.manual_seed(0)
    return _both(4 * torch.randn(2, 2, 1, 16), torch.randn(2, 2, 50, 16), torch.randn(2, 2, 50, 16), 2.0)


def ordinary(dtype):
    for queries, keys, cap in ((40, 40, 0.0), (1, 100, 0.0), (30, 50, 20.0), (2, 33, 5.0)):
        q = torch.randn(2, 2, queries, 24).to(dtype)
        yield f"{queries} {cap}", _both(q, *(torch.randn(2, 2, keys, 24).to(dtype) for _ in range(2)), cap)
