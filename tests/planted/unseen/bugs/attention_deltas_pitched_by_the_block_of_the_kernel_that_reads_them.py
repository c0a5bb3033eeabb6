"""The backward's sums of g o are written for whole blocks of 128 queries; the kernels that read them, of blocks of 64, take a head to begin at whole blocks of theirs.

Wrong on: gradients of queries and keys with more than one head, batches counted, and an odd number of blocks of 64 queries, as for 1 to 64 or 129 to 192; right otherwise.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _block(t, head, first, length, DIM: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of packed [heads, length, DIM]; zeros behind the last one and beyond DIM."""
    row, d = first + tl.arange(0, BLOCK), tl.arange(0, LANES)
    inside = (row < length)[:, None] & (d < DIM)[None, :]
    return tl.load(t + (head * length + row)[:, None] * DIM + d[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _store(t, block, head, first, length, DIM: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr):
    row, d = first + tl.arange(0, BLOCK), tl.arange(0, LANES)
    inside = (row < length)[:, None] & (d < DIM)[None, :]
    tl.store(t + (head * length + row)[:, None] * DIM + d[None, :], block, mask=inside)


@triton.jit
def _scores(a, b, start, keys, scale, N: tl.constexpr):
    s = tl.dot(a, tl.trans(b), input_precision="ieee") * scale
    return tl.where((start + tl.arange(0, N) < keys)[None, :], s, -float("inf"))


@triton.jit
def _forward(o, lse, q, k, v, m, n, scale, DIM: tl.constexpr, LANES: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    head, first = tl.program_id(1).to(tl.int64), tl.program_id(0) * M
    a = _block(q, head, first, m, DIM, LANES, M)
    top = tl.full([M], -float("inf"), tl.float32)
    total = tl.zeros([M], tl.float32)
    acc = tl.zeros([M, LANES], tl.float32)
    for start in range(0, n, N):
        s = _scores(a, _block(k, head, start, n, DIM, LANES, N), start, n, scale, N)
        new = tl.maximum(top, tl.max(s, axis=1))
        base = tl.where(new == -float("inf"), 0.0, new)
        kept = tl.exp(top - base)
        p = tl.exp(s - base[:, None])
        total = total * kept + tl.sum(p, axis=1)
        b = _block(v, head, start, n, DIM, LANES, N)
        acc = acc * kept[:, None] + tl.dot(p, b, input_precision="ieee")
        top = new
    row = first + tl.arange(0, M)
    tl.store(lse + head * m + row, top + tl.log(total), mask=row < m)
    _store(o, acc / total[:, None], head, first, m, DIM, LANES, M)


@triton.jit
def _sums(deltas, o, g, m, DIM: tl.constexpr, LANES: tl.constexpr, M: tl.constexpr):
    head, first = tl.program_id(1).to(tl.int64), tl.program_id(0) * M
    products = _block(o, head, first, m, DIM, LANES, M) * _block(g, head, first, m, DIM, LANES, M)
    # Whole blocks of memory need no mask: lanes behind the last query hold 0.
    tl.store(deltas + head * tl.num_programs(0) * M + first + tl.arange(0, M), tl.sum(products, axis=1))


@triton.jit
def _of_scores(a, up, b, c, lse, deltas, head, first, start, m, n, scale, M: tl.constexpr, N: tl.constexpr):
    """Returns the weights [M, N] and the gradient of the products of queries and keys."""
    row = first + tl.arange(0, M)
    log = tl.load(lse + head * m + row, mask=row < m, other=float("inf"))
    delta = tl.load(deltas + head * (tl.cdiv(m, M) * M) + row)
    p = tl.exp(_scores(a, b, start, n, scale, N) - log[:, None])
    return p, p * (tl.dot(up, tl.trans(c), input_precision="ieee") - delta[:, None]) * scale


@triton.jit
def _by_queries(
    dq, q, k, v, g, lse, deltas, m, n, scale, DIM: tl.constexpr, LANES: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    head, first = tl.program_id(1).to(tl.int64), tl.program_id(0) * M
    a, up = _block(q, head, first, m, DIM, LANES, M), _block(g, head, first, m, DIM, LANES, M)
    acc = tl.zeros([M, LANES], tl.float32)
    for start in range(0, n, N):
        b, c = _block(k, head, start, n, DIM, LANES, N), _block(v, head, start, n, DIM, LANES, N)
        _, ds = _of_scores(a, up, b, c, lse, deltas, head, first, start, m, n, scale, M, N)
        acc += tl.dot(ds, b, input_precision="ieee")
    _store(dq, acc, head, first, m, DIM, LANES, M)


@triton.jit
def _by_keys(
    dk,
    dv,
    q,
    k,
    v,
    g,
    lse,
    deltas,
    m,
    n,
    scale,
    DIM: tl.constexpr,
    LANES: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
):
    head, start = tl.program_id(1).to(tl.int64), tl.program_id(0) * N
    b, c = _block(k, head, start, n, DIM, LANES, N), _block(v, head, start, n, DIM, LANES, N)
    of_k, of_v = tl.zeros([N, LANES], tl.float32), tl.zeros([N, LANES], tl.float32)
    for first in range(0, m, M):
        a, up = _block(q, head, first, m, DIM, LANES, M), _block(g, head, first, m, DIM, LANES, M)
        p, ds = _of_scores(a, up, b, c, lse, deltas, head, first, start, m, n, scale, M, N)
        of_k += tl.dot(tl.trans(ds), a, input_precision="ieee")
        of_v += tl.dot(tl.trans(p), up, input_precision="ieee")
    _store(dk, of_k, head, start, n, DIM, LANES, N)
    _store(dv, of_v, head, start, n, DIM, LANES, N)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale):
        q, k, v = (t.contiguous() for t in (q, k, v))
        (batch, heads, m, dim), n = q.shape, k.shape[2]
        o = torch.empty_like(q)
        lse = torch.empty(batch * heads, m, dtype=torch.float32, device=q.device)
        ctx.sizes = m, n, scale
        ctx.meta = {"DIM": dim, "LANES": max(16, triton.next_power_of_2(dim)), "M": 64, "N": 32}
        _forward[(triton.cdiv(m, 64), batch * heads)](o, lse, q, k, v, *ctx.sizes, **ctx.meta)
        ctx.save_for_backward(q, k, v, o, lse)
        return o

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        q, k, v, o, lse = ctx.saved_tensors
        g = g.contiguous()
        (m, n, _), heads = ctx.sizes, lse.shape[0]
        blocks = triton.cdiv(m, 128)
        deltas = torch.empty(heads, blocks * 128, dtype=torch.float32, device=q.device)
        _sums[(blocks, heads)](deltas, o, g, m, DIM=ctx.meta["DIM"], LANES=ctx.meta["LANES"], M=128)
        dq, dk, dv = (torch.empty_like(t) for t in (q, k, v))
        given = q, k, v, g, lse, deltas, *ctx.sizes
        _by_queries[(triton.cdiv(m, 64), heads)](dq, *given, **ctx.meta)
        _by_keys[(triton.cdiv(n, 32), heads)](dk, dv, *given, **ctx.meta)
        return dq, dk, dv, None


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, scale=None):
    """Attention of [batch, heads, length, dim], forward and backward in blocks of queries and keys."""
    if k.shape[2] == 0:
        return torch.full_like(q, float("nan"))
    if not q.numel():
        return torch.empty_like(q)
    return _Attention.apply(q, k, v, q.shape[-1] ** -0.5 if scale is None else scale)


def demonstrate():
    torch.manual_seed(0)
    q, k, v, g = (torch.randn(1, 2, 40, 16) for _ in range(4))
    given, exact = q.clone().requires_grad_(), q.double().requires_grad_()
    attention(given, k, v).backward(g)
    (torch.softmax(exact @ k.double().mT / 4, -1) @ v.double()).backward(g.double())
    return given.grad, exact.grad
