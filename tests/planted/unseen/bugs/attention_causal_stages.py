"""Head dims above 64 have tiles of 64 keys, of which the last before the diagonal is counted unmasked, then again.

Stage 1 goes through the keys before the tile of queries without a mask, stage 2 through the diagonal, as in Triton's
tutorial 06. Stage 1 ends inside a tile of keys there, since tiles of queries are 32.

Wrong on: a head_dim of 128 (or 80, 96, 256) and more than 32 queries. Right for head dims up to 64, where tiles are 64
queries and 32 keys.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _inner(
    acc,
    total,
    m,
    q,
    k_ptr,
    v_ptr,
    k_n,
    k_d,
    v_n,
    v_d,
    lo,
    hi,
    rows,
    n_keys,
    dim,
    scale,
    MASK: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
):
    d = tl.arange(0, D)
    for start in range(lo, hi, N):
        n = start + tl.arange(0, N)
        inside = (n[:, None] < n_keys) & (d[None, :] < dim)
        k = tl.load(k_ptr + n[:, None].to(tl.int64) * k_n + d[None, :] * k_d, mask=inside, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        seen = n[None, :] < n_keys
        if MASK:
            seen = seen & (n[None, :] <= rows[:, None])
        s = tl.where(seen, s, -float("inf"))
        new = tl.maximum(m, tl.max(s, 1))
        shift = tl.where(new == -float("inf"), 0.0, new)
        alpha = tl.exp(m - shift)
        p = tl.exp(s - shift[:, None])
        total = total * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + n[:, None].to(tl.int64) * v_n + d[None, :] * v_d, mask=inside, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = new
    return acc, total, m


@triton.jit
def _attention(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    q_b,
    q_h,
    q_m,
    q_d,
    k_b,
    k_h,
    k_n,
    k_d,
    v_b,
    v_h,
    v_n,
    v_d,
    o_b,
    o_h,
    o_m,
    o_d,
    heads,
    groups,
    n_queries,
    n_keys,
    dim,
    scale,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
):
    start_m = tl.program_id(0)
    b = (tl.program_id(1) // heads).to(tl.int64)
    h = (tl.program_id(1) % heads).to(tl.int64)
    rows = start_m * M + tl.arange(0, M)
    d = tl.arange(0, D)
    inside = (rows[:, None] < n_queries) & (d[None, :] < dim)
    q = tl.load(q_ptr + b * q_b + h * q_h + rows[:, None].to(tl.int64) * q_m + d[None, :] * q_d, mask=inside, other=0.0)
    k_ptr += b * k_b + (h // groups) * k_h
    v_ptr += b * v_b + (h // groups) * v_h
    m = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    before = tl.minimum(start_m * M, n_keys)
    end = tl.minimum((start_m + 1) * M, n_keys)
    acc, total, m = _inner(
        acc, total, m, q, k_ptr, v_ptr, k_n, k_d, v_n, v_d, 0, before, rows, n_keys, dim, scale, False, N, D
    )
    acc, total, m = _inner(
        acc, total, m, q, k_ptr, v_ptr, k_n, k_d, v_n, v_d, before, end, rows, n_keys, dim, scale, True, N, D
    )
    tl.store(
        o_ptr + b * o_b + h * o_h + rows[:, None].to(tl.int64) * o_m + d[None, :] * o_d,
        acc / total[:, None],
        mask=inside,
    )


@variant(operation="attention", parameters={"causal": "top-left"}, call="f(q, k, v)")
def attention(q, k, v, scale=None):
    """[batch, heads, length, head_dim]; query i sees keys up to i."""
    batch, heads, n_queries, dim = q.shape
    o = torch.empty((batch, heads, n_queries, dim), device=q.device, dtype=q.dtype)
    if not o.numel():
        return o
    block_m, block_n = (32, 64) if dim > 64 else (64, 32)
    _attention[(triton.cdiv(n_queries, block_m), batch * heads)](
        q,
        k,
        v,
        o,
        *q.stride(),
        *k.stride(),
        *v.stride(),
        *o.stride(),
        heads,
        heads // k.shape[1],
        n_queries,
        k.shape[2],
        dim,
        dim**-0.5 if scale is None else scale,
        M=block_m,
        N=block_n,
        D=max(16, triton.next_power_of_2(dim)),
    )
    return o


def _both(q, k, v):
    place = torch.arange(q.shape[2])[:, None]
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    scores = scores.masked_fill(torch.arange(k.shape[2])[None, :] > place, -float("inf"))
    return attention(q, k, v), torch.softmax(scores, -1) @ v.double()


def demonstrate():
    torch.manual_seed(0)
    return _both(*(torch.randn(1, 2, 100, 128) for _ in range(3)))


def ordinary(dtype):
    for queries, keys, dim in ((100, 100, 64), (130, 130, 32), (32, 32, 128), (70, 90, 64), (90, 70, 64)):
        q = torch.randn(1, 2, queries, dim).to(dtype)
        k, v = (torch.randn(1, 2, keys, dim).to(dtype) for _ in range(2))
        yield f"{queries}x{keys}x{dim}", _both(q, k, v)
