"""The maximum is kept of the products before they are scaled, and scaled for the log-sum-exp; that of capped scores holds the scale already, and gets it twice.

Wrong on: the log-sum-exp with a soft cap, and a scale other than 1; the answer, and the log-sum-exp without a cap, are right.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
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
    lse,
    q,
    k,
    v,
    heads,
    groups,
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
    number = tl.program_id(1).to(tl.int64)
    batch, head = number // heads, number % heads
    row, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BD)
    inside = (row < queries)[:, None] & (d < DIM)[None, :]
    q += batch * qb + head * qh
    k += batch * kb + head // groups * kh
    v += batch * vb + head // groups * vh
    rows = tl.load(q + row[:, None].to(tl.int64) * qm + d[None, :], mask=inside, other=0.0).to(tl.float32)
    # What an exponent is multiplied by.
    factor = scale
    if CAPPED:
        factor = 1.0
    peak = tl.full([BM], -float("inf"), tl.float32)
    mass = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    for start in range(0, keys, BN):
        n = start + tl.arange(0, BN)
        there, exists = n[:, None].to(tl.int64), (n < keys)[:, None] & (d < DIM)[None, :]
        kt = tl.load(k + there * kn + d[None, :], mask=exists, other=0.0).to(tl.float32)
        s = tl.dot(rows, tl.trans(kt), input_precision="ieee")
        if CAPPED:
            s = cap * _tanh(s * scale / cap)
        s = tl.where((n < keys)[None, :], s, -float("inf"))
        if CAUSAL:
            s = tl.where(n[None, :] <= row[:, None], s, -float("inf"))
        larger = tl.maximum(peak, tl.max(s, axis=1))
        base = tl.where(larger == -float("inf"), 0.0, larger)
        p = tl.exp((s - base[:, None]) * factor)
        kept = tl.exp((peak - base) * factor)
        mass = mass * kept + tl.sum(p, axis=1)
        vt = tl.load(v + there * vn + d[None, :], mask=exists, other=0.0).to(tl.float32)
        acc = acc * kept[:, None] + tl.dot(p, vt, input_precision="ieee")
        peak = larger
    tl.store(lse + number * queries + row, peak * scale + tl.log(mass), mask=row < queries)
    at = out + (number * queries + row[:, None]) * DIM + d[None, :]
    tl.store(at, acc / mass[:, None], mask=inside)


@variant(operation="attention_logsumexp", dtypes=("float16", "bfloat16", "float32"))
def attention_logsumexp(q, k, v, is_causal=False, scale=None, softcap=0.0, enable_gqa=False):
    """Attention of [batch, heads, length, dim], and the float32 log-sum-exp of each query; the scale is positive."""
    batch, heads, queries, dim = q.shape
    kv_heads, keys = k.shape[1:3]
    if heads != kv_heads and not (enable_gqa and heads % kv_heads == 0):
        raise ValueError(f"{heads} heads of queries and {kv_heads} of keys")
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.full(q.shape[:3], -float("inf"), dtype=torch.float32, device=q.device)
    if not out.numel():
        return out, lse
    if keys == 0:
        return out.fill_(float("nan")), lse
    q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
    _attend[(triton.cdiv(queries, 32), batch * heads)](
        out,
        lse,
        q,
        k,
        v,
        heads,
        heads // kv_heads,
        queries,
        keys,
        dim**-0.5 if scale is None else scale,
        softcap or 1.0,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        CAPPED=bool(softcap),
        CAUSAL=bool(is_causal),
        DIM=dim,
        BM=32,
        BN=32,
        BD=max(16, triton.next_power_of_2(dim)),
    )
    return out, lse


def _both(q, k, v, cap=0.0, scale=None, is_causal=False):
    s = q.double() @ k.double().mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = cap * torch.tanh(s / cap) if cap else s
    if is_causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -float("inf"))
    out, lse = attention_logsumexp(q, k, v, is_causal, scale, cap)
    return (out, torch.softmax(s, -1) @ v.double()), (lse, torch.logsumexp(s, -1))


def demonstrate():
    torch.manual_seed(0)
    return _both(*(torch.randn(1, 2, 30, 16) for _ in range(3)), cap=5.0)[1]


def ordinary(dtype):
    for queries, keys, scale, is_causal in ((40, 40, None, True), (1, 100, None, False), (30, 50, 0.5, False)):
        q = torch.randn(2, 2, queries, 24).to(dtype)
        k, v = (torch.randn(2, 2, keys, 24).to(dtype) for _ in range(2))
        yield from (("plain", pair) for pair in _both(q, k, v, 0.0, scale, is_causal))
        yield "capped answer", _both(q, k, v, 20.0, scale, is_causal)[0]
        yield "a scale of 1", _both(q, k, v, 20.0, 1.0, is_causal)[1]
