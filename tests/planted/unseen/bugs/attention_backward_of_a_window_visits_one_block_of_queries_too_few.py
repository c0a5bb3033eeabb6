"""The backward of a block of keys ends its loop over queries at the block's first key and the window, and forgets that the last key is seen further on.

Wrong on: gradients of keys and values, a window, and more than 32 queries, which is where the loop ends too early; right otherwise.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _tile(x, first, length, stride, DIM: tl.constexpr, BLOCK: tl.constexpr, BD: tl.constexpr):
    row, d = first + tl.arange(0, BLOCK), tl.arange(0, BD)
    inside = (row < length)[:, None] & (d < DIM)[None, :]
    return tl.load(x + row[:, None].to(tl.int64) * stride + d[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _scores(a, b, first, start, queries, keys, scale, window, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    s = tl.dot(a, tl.trans(b), input_precision="ieee") * scale
    m, n = first + tl.arange(0, BM)[:, None], start + tl.arange(0, BN)[None, :]
    seen = (m < queries) & (n < keys)
    if CAUSAL:
        seen = seen & (n <= m) & (n > m - window)
    return tl.where(seen, s, -float("inf"))


@triton.jit
def _forward(
    out,
    lse,
    q,
    k,
    v,
    heads,
    queries,
    keys,
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
    CAUSAL: tl.constexpr,
    DIM: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    b, h = head // heads, head % heads
    first = tl.program_id(0) * BM
    a = _tile(q + b * qb + h * qh, first, queries, qm, DIM, BM, BD)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    begin, end = 0, keys
    if CAUSAL:
        begin = tl.maximum(0, first - window + 1) // BN * BN
        end = tl.minimum(keys, first + BM)
    for start in range(begin, end, BN):
        kt = _tile(k + b * kb + h * kh, start, keys, kn, DIM, BN, BD)
        vt = _tile(v + b * vb + h * vh, start, keys, vn, DIM, BN, BD)
        s = _scores(a, kt, first, start, queries, keys, scale, window, CAUSAL, BM, BN)
        new = tl.maximum(top, tl.max(s, axis=1))
        base = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp(s - base[:, None])
        kept = tl.exp(top - base)
        total = total * kept + tl.sum(p, axis=1)
        acc = acc * kept[:, None] + tl.dot(p, vt, input_precision="ieee")
        top = new
    row, d = first + tl.arange(0, BM), tl.arange(0, BD)
    tl.store(lse + head * queries + row, tl.where(total > 0.0, top + tl.log(total), float("inf")), mask=row < queries)
    o = (head * queries + row[:, None]) * DIM + d[None, :]
    tl.store(out + o, acc / total[:, None], mask=(row < queries)[:, None] & (d < DIM)[None, :])


@triton.jit
def _by_queries(
    dq,
    q,
    k,
    v,
    g,
    lse,
    delta,
    heads,
    queries,
    keys,
    scale,
    window,
    CAUSAL: tl.constexpr,
    DIM: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BM
    row, d = first + tl.arange(0, BM), tl.arange(0, BD)
    a = _tile(q + head * queries * DIM, first, queries, DIM, DIM, BM, BD)
    up = _tile(g + head * queries * DIM, first, queries, DIM, DIM, BM, BD)
    logs = tl.load(lse + head * queries + row, mask=row < queries, other=float("inf"))
    mean = tl.load(delta + head * queries + row, mask=row < queries, other=0.0)
    acc = tl.zeros([BM, BD], tl.float32)
    begin, end = 0, keys
    if CAUSAL:
        begin = tl.maximum(0, first - window + 1) // BN * BN
        end = tl.minimum(keys, first + BM)
    for start in range(begin, end, BN):
        kt = _tile(k + head * keys * DIM, start, keys, DIM, DIM, BN, BD)
        vt = _tile(v + head * keys * DIM, start, keys, DIM, DIM, BN, BD)
        s = _scores(a, kt, first, start, queries, keys, scale, window, CAUSAL, BM, BN)
        p = tl.exp(s - logs[:, None])
        ds = p * (tl.dot(up, tl.trans(vt), input_precision="ieee") - mean[:, None]) * scale
        acc += tl.dot(ds, kt, input_precision="ieee")
    o = (head * queries + row[:, None]) * DIM + d[None, :]
    tl.store(dq + o, acc, mask=(row < queries)[:, None] & (d < DIM)[None, :])


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
    heads,
    queries,
    keys,
    scale,
    window,
    CAUSAL: tl.constexpr,
    DIM: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    start = tl.program_id(0) * BN
    kt = _tile(k + head * keys * DIM, start, keys, DIM, DIM, BN, BD)
    vt = _tile(v + head * keys * DIM, start, keys, DIM, DIM, BN, BD)
    of_k = tl.zeros([BN, BD], tl.float32)
    of_v = tl.zeros([BN, BD], tl.float32)
    begin, end = 0, queries
    if CAUSAL:
        begin = start // BM * BM
        end = tl.minimum(queries, start + window)
    for first in range(begin, end, BM):
        row = first + tl.arange(0, BM)
        a = _tile(q + head * queries * DIM, first, queries, DIM, DIM, BM, BD)
        up = _tile(g + head * queries * DIM, first, queries, DIM, DIM, BM, BD)
        logs = tl.load(lse + head * queries + row, mask=row < queries, other=float("inf"))
        mean = tl.load(delta + head * queries + row, mask=row < queries, other=0.0)
        s = _scores(a, kt, first, start, queries, keys, scale, window, CAUSAL, BM, BN)
        p = tl.exp(s - logs[:, None])
        ds = p * (tl.dot(up, tl.trans(vt), input_precision="ieee") - mean[:, None]) * scale
        of_v += tl.dot(tl.trans(p), up, input_precision="ieee")
        of_k += tl.dot(tl.trans(ds), a, input_precision="ieee")
    n, d = start + tl.arange(0, BN), tl.arange(0, BD)
    o = (head * keys + n[:, None]) * DIM + d[None, :]
    inside = (n < keys)[:, None] & (d < DIM)[None, :]
    tl.store(dk + o, of_k, mask=inside)
    tl.store(dv + o, of_v, mask=inside)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, is_causal, scale, window):
        batch, heads, queries, dim = q.shape
        keys = k.shape[2]
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
        q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
        sizes = heads, queries, keys, scale, window
        meta = {"CAUSAL": is_causal, "DIM": dim, "BM": 32, "BN": 32, "BD": max(16, triton.next_power_of_2(dim))}
        grid = (triton.cdiv(queries, 32), batch * heads)
        _forward[grid](out, lse, q, k, v, *sizes, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], **meta)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.sizes, ctx.meta = sizes, meta
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        q, k, v, out, lse = (t.contiguous() for t in ctx.saved_tensors)
        delta, g = (g.float() * out.float()).sum(-1), g.contiguous()
        dq, dk, dv = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (q, k, v))
        heads = q.shape[0] * q.shape[1]
        given = q, k, v, g, lse, delta, *ctx.sizes
        _by_queries[(triton.cdiv(q.shape[2], 32), heads)](dq, *given, **ctx.meta)
        _by_keys[(triton.cdiv(k.shape[2], 32), heads)](dk, dv, *given, **ctx.meta)
        return dq, dk, dv, None, None, None


@variant(operation="attention", parameters={"causal": "top-left"}, dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, window=0, scale=None):
    """Causal attention of [batch, heads, length, dim]; a query sees the last ``window`` keys up to its own place, 0 for all."""
    if not q.numel() or k.shape[2] == 0:
        return torch.full_like(q, float("nan"))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return _Attention.apply(q, k, v, True, scale, window or max(q.shape[2], k.shape[2]) + 32)


def _exact(q, k, v, window):
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
    seen = seen.triu(1 - window) if window else seen
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~seen, -float("inf"))
    return torch.softmax(scores, -1) @ v


def _gradients(q, k, v, window):
    given = [t.clone().requires_grad_() for t in (q, k, v)]
    exact = [t.double().requires_grad_() for t in (q, k, v)]
    above = torch.randn(q.shape).to(q.dtype)
    attention(*given, window=window).backward(above)
    _exact(*exact, window).backward(above.double())
    return [(a.grad, b.grad) for a, b in zip(given, exact, strict=True)]


def demonstrate():
    torch.manual_seed(0)
    return _gradients(*(torch.randn(1, 2, 100, 16) for _ in range(3)), 20)[1]


def ordinary(dtype):
    for queries, keys, window in ((100, 100, 0), (64, 64, 32), (30, 30, 20), (64, 40, 0)):
        q = torch.randn(1, 2, queries, 16).to(dtype)
        k, v = (torch.randn(1, 2, keys, 16).to(dtype) for _ in range(2))
        yield "answer", (attention(q, k, v, window), _exact(q.double(), k.double(), v.double(), window))
        for pair in _gradients(q, k, v, 0 if queries > 32 else window):
            yield "gradient", pair
