"""Many queries over few keys are split for the gradients of keys; a split begins at its own first query or at the block's first key, whichever is later."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

SPLITS = 4


@triton.jit
def _tile(x, first, length, DIM: tl.constexpr, BLOCK: tl.constexpr, BD: tl.constexpr):
    row, d = first + tl.arange(0, BLOCK), tl.arange(0, BD)
    inside = (row < length)[:, None] & (d < DIM)[None, :]
    return tl.load(x + row[:, None].to(tl.int64) * DIM + d[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _scores(a, b, first, start, queries, keys, scale, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    s = tl.dot(a, tl.trans(b), input_precision="ieee") * scale
    m, n = first + tl.arange(0, BM)[:, None], start + tl.arange(0, BN)[None, :]
    seen = (m < queries) & (n < keys)
    if CAUSAL:
        seen = seen & (n <= m)
    return tl.where(seen, s, -float("inf"))


@triton.jit
def _forward(
    out,
    lse,
    q,
    k,
    v,
    queries,
    keys,
    scale,
    CAUSAL: tl.constexpr,
    DIM: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BM
    a = _tile(q + head * queries * DIM, first, queries, DIM, BM, BD)
    peak = tl.full([BM], -float("inf"), tl.float32)
    mass = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    end = keys
    if CAUSAL:
        end = tl.minimum(keys, first + BM)
    for start in range(0, end, BN):
        kt = _tile(k + head * keys * DIM, start, keys, DIM, BN, BD)
        vt = _tile(v + head * keys * DIM, start, keys, DIM, BN, BD)
        s = _scores(a, kt, first, start, queries, keys, scale, CAUSAL, BM, BN)
        larger = tl.maximum(peak, tl.max(s, axis=1))
        base = tl.where(larger == -float("inf"), 0.0, larger)
        p = tl.exp(s - base[:, None])
        kept = tl.exp(peak - base)
        mass = mass * kept + tl.sum(p, axis=1)
        acc = acc * kept[:, None] + tl.dot(p, vt, input_precision="ieee")
        peak = larger
    row, d = first + tl.arange(0, BM), tl.arange(0, BD)
    tl.store(lse + head * queries + row, peak + tl.log(mass), mask=row < queries)
    at = out + (head * queries + row[:, None]) * DIM + d[None, :]
    tl.store(at, acc / mass[:, None], mask=(row < queries)[:, None] & (d < DIM)[None, :])


@triton.jit
def _by_queries(
    dq,
    q,
    k,
    v,
    g,
    lse,
    delta,
    queries,
    keys,
    scale,
    CAUSAL: tl.constexpr,
    DIM: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BM
    row, d = first + tl.arange(0, BM), tl.arange(0, BD)
    a = _tile(q + head * queries * DIM, first, queries, DIM, BM, BD)
    up = _tile(g + head * queries * DIM, first, queries, DIM, BM, BD)
    logs = tl.load(lse + head * queries + row, mask=row < queries, other=float("inf"))
    mean = tl.load(delta + head * queries + row, mask=row < queries, other=0.0)
    acc = tl.zeros([BM, BD], tl.float32)
    end = keys
    if CAUSAL:
        end = tl.minimum(keys, first + BM)
    for start in range(0, end, BN):
        kt = _tile(k + head * keys * DIM, start, keys, DIM, BN, BD)
        vt = _tile(v + head * keys * DIM, start, keys, DIM, BN, BD)
        p = tl.exp(_scores(a, kt, first, start, queries, keys, scale, CAUSAL, BM, BN) - logs[:, None])
        ds = p * (tl.dot(up, tl.trans(vt), input_precision="ieee") - mean[:, None]) * scale
        acc += tl.dot(ds, kt, input_precision="ieee")
    at = dq + (head * queries + row[:, None]) * DIM + d[None, :]
    tl.store(at, acc, mask=(row < queries)[:, None] & (d < DIM)[None, :])


@triton.jit
def _by_keys(
    dk,
    dv,
    q,
    k,
    v,
    g,
    lse,
    delta,
    queries,
    keys,
    scale,
    span,
    CAUSAL: tl.constexpr,
    DIM: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    part = tl.program_id(2)
    start = tl.program_id(0) * BN
    kt = _tile(k + head * keys * DIM, start, keys, DIM, BN, BD)
    vt = _tile(v + head * keys * DIM, start, keys, DIM, BN, BD)
    of_k = tl.zeros([BN, BD], tl.float32)
    of_v = tl.zeros([BN, BD], tl.float32)
    begin = part * span
    end = tl.minimum(queries, begin + span)
    if CAUSAL:
        # No query before the block's first key sees one of it.
        begin = tl.maximum(begin, start // BM * BM)
    for first in range(begin, end, BM):
        row = first + tl.arange(0, BM)
        a = _tile(q + head * queries * DIM, first, queries, DIM, BM, BD)
        up = _tile(g + head * queries * DIM, first, queries, DIM, BM, BD)
        logs = tl.load(lse + head * queries + row, mask=row < queries, other=float("inf"))
        mean = tl.load(delta + head * queries + row, mask=row < queries, other=0.0)
        p = tl.exp(_scores(a, kt, first, start, queries, keys, scale, CAUSAL, BM, BN) - logs[:, None])
        ds = p * (tl.dot(up, tl.trans(vt), input_precision="ieee") - mean[:, None]) * scale
        of_v += tl.dot(tl.trans(p), up, input_precision="ieee")
        of_k += tl.dot(tl.trans(ds), a, input_precision="ieee")
    n, d = start + tl.arange(0, BN), tl.arange(0, BD)
    at = ((part * tl.num_programs(1) + head) * keys + n[:, None]) * DIM + d[None, :]
    inside = (n < keys)[:, None] & (d < DIM)[None, :]
    tl.store(dk + at, of_k, mask=inside)
    tl.store(dv + at, of_v, mask=inside)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, is_causal, scale):
        batch, heads, queries, dim = q.shape
        keys = k.shape[2]
        q, k, v = (t.contiguous() for t in (q, k, v))
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
        ctx.sizes = queries, keys, scale
        ctx.meta = {"CAUSAL": is_causal, "DIM": dim, "BM": 32, "BN": 32, "BD": max(16, triton.next_power_of_2(dim))}
        _forward[(triton.cdiv(queries, 32), batch * heads)](out, lse, q, k, v, *ctx.sizes, **ctx.meta)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        q, k, v, out, lse = ctx.saved_tensors
        queries, keys, heads = q.shape[2], k.shape[2], q.shape[0] * q.shape[1]
        delta, g = (g.float() * out.float()).sum(-1), g.contiguous()
        dq = torch.empty_like(q)
        _by_queries[(triton.cdiv(queries, 32), heads)](dq, q, k, v, g, lse, delta, *ctx.sizes, **ctx.meta)
        splits = SPLITS if queries >= 4 * keys else 1
        span = triton.cdiv(triton.cdiv(queries, splits), 32) * 32
        dk, dv = (torch.empty((splits, *k.shape), dtype=torch.float32, device=k.device) for _ in range(2))
        grid = (triton.cdiv(keys, 32), heads, splits)
        _by_keys[grid](dk, dv, q, k, v, g, lse, delta, *ctx.sizes, span, **ctx.meta)
        return dq, dk.sum(0).to(k.dtype), dv.sum(0).to(v.dtype), None, None


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, is_causal=False, scale=None):
    """Attention of [batch, heads, length, dim] with torch's causal mask, in which query 0 sees key 0 alone."""
    if not q.numel() or k.shape[2] == 0:
        return torch.full_like(q, float("nan"))
    return _Attention.apply(q, k, v, bool(is_causal), q.shape[-1] ** -0.5 if scale is None else scale)


def _exact(q, k, v, is_causal):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -float("inf"))
    return torch.softmax(scores, -1) @ v


def _gradients(queries, keys, is_causal, dtype):
    q = torch.randn(1, 2, queries, 16).to(dtype)
    k, v = (torch.randn(1, 2, keys, 16).to(dtype) for _ in range(2))
    given = [t.clone().requires_grad_() for t in (q, k, v)]
    exact = [t.double().requires_grad_() for t in (q, k, v)]
    above = torch.randn(q.shape).to(dtype)
    out, right = attention(*given, is_causal=is_causal), _exact(*exact, is_causal)
    out.backward(above)
    right.backward(above.double())
    return [(out, right), *((a.grad, b.grad) for a, b in zip(given, exact, strict=True))]


def ordinary(dtype):
    for queries, keys, is_causal in (
        (70, 70, True),
        (128, 30, True),
        (160, 40, True),
        (300, 70, True),
        (100, 40, True),
        (20, 60, True),
    ):
        for pair in _gradients(queries, keys, is_causal, dtype):
            yield f"{queries} {keys} {is_causal}", pair
