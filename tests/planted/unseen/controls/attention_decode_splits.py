"""Keys are split over programs, and the sink is added once, in the merge; splits that a query can't see weigh nothing.

Causal (bottom-right) with a window of 24; such splits have a log-sum-exp of -inf.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_WINDOW = 24


@triton.jit
def _split(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
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
    heads,
    groups,
    n_queries,
    n_keys,
    dim,
    scale,
    window,
    splits,
    PART: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
):
    split = tl.program_id(2)
    b = (tl.program_id(1) // heads).to(tl.int64)
    h = (tl.program_id(1) % heads).to(tl.int64)
    rows = tl.program_id(0) * M + tl.arange(0, M)
    place = rows + n_keys - n_queries
    d = tl.arange(0, D)
    inside = (rows[:, None] < n_queries) & (d[None, :] < dim)
    q = tl.load(q_ptr + b * q_b + h * q_h + rows[:, None].to(tl.int64) * q_m + d[None, :] * q_d, mask=inside, other=0.0)
    k_ptr += b * k_b + (h // groups) * k_h
    v_ptr += b * v_b + (h // groups) * v_h
    m = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for start in range(split * PART, tl.minimum((split + 1) * PART, n_keys), N):
        n = start + tl.arange(0, N)
        there = (n[:, None] < n_keys) & (d[None, :] < dim)
        k = tl.load(k_ptr + n[:, None].to(tl.int64) * k_n + d[None, :] * k_d, mask=there, other=0.0)
        s = tl.dot(q.to(tl.float32), tl.trans(k.to(tl.float32)), input_precision="ieee") * scale
        seen = (n[None, :] < n_keys) & (n[None, :] <= place[:, None]) & (n[None, :] > place[:, None] - window)
        s = tl.where(seen, s, -float("inf"))
        new = tl.maximum(m, tl.max(s, 1))
        shift = tl.where(new == -float("inf"), 0.0, new)
        alpha = tl.exp(m - shift)
        p = tl.exp(s - shift[:, None])
        total = total * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + n[:, None].to(tl.int64) * v_n + d[None, :] * v_d, mask=there, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p, v.to(tl.float32), input_precision="ieee")
        m = new
    at = (tl.program_id(1).to(tl.int64) * splits + split) * n_queries + rows
    tl.store(o_ptr + at[:, None] * dim + d[None, :], acc / tl.where(total == 0.0, 1.0, total)[:, None], mask=inside)
    tl.store(lse_ptr + at, m + tl.log(total), mask=rows < n_queries)


@variant(
    operation="attention",
    parameters={"causal": "bottom-right", "window": _WINDOW, "sink": 1.0},
    call="f(q, k, v, sinks)",
)
def attention(q, k, v, sinks):
    batch, heads, n_queries, dim = q.shape
    n_keys = k.shape[2]
    if not q.numel():
        return torch.empty_like(q)
    splits = max(1, triton.cdiv(n_keys, 64))
    o = torch.empty((batch, heads, splits, n_queries, dim), device=q.device, dtype=torch.float32)
    lse = torch.empty((batch, heads, splits, n_queries), device=q.device, dtype=torch.float32)
    _split[(triton.cdiv(n_queries, 16), batch * heads, splits)](
        q,
        k,
        v,
        o,
        lse,
        *q.stride(),
        *k.stride(),
        *v.stride(),
        heads,
        heads // k.shape[1],
        n_queries,
        n_keys,
        dim,
        dim**-0.5,
        _WINDOW,
        splits,
        PART=64,
        M=16,
        N=32,
        D=max(16, triton.next_power_of_2(dim)),
    )
    sink = sinks.detach().float()[None, :, None, None].expand(batch, heads, 1, n_queries)
    weights = torch.softmax(torch.cat([lse, sink], 2), 2)[:, :, :-1]
    return (weights.unsqueeze(-1) * o).sum(2).to(q.dtype)


def _both(q, k, v, sinks):
    place = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    key = torch.arange(k.shape[2])[None, :]
    groups = q.shape[1] // k.shape[1]
    wide_k, wide_v = (t.double().repeat_interleave(groups, 1) for t in (k, v))
    scores = q.double() @ wide_k.mT * q.shape[-1] ** -0.5
    scores = scores.masked_fill((key > place) | (key <= place - _WINDOW), -float("inf"))
    of_sinks = sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)
    p = torch.softmax(torch.cat((scores, of_sinks), -1), -1)[..., :-1]
    return attention(q, k, v, sinks), p @ wide_v


def ordinary(dtype):
    sinks = torch.tensor([1.0, -3.0, 5.0, 0.0])
    for heads, queries, keys, dim in (
        (4, 1, 200, 64),
        (4, 130, 130, 64),
        (2, 40, 33, 32),
        (4, 7, 64, 80),
        (1, 1, 1, 16),
    ):
        q = torch.randn(2, 4, queries, dim).to(dtype)
        k, v = (torch.randn(2, heads, keys, dim).to(dtype) for _ in range(2))
        yield f"{heads} {queries}x{keys}x{dim}", _both(q, k, v, sinks)
    q, k, v = (torch.randn(2, 90, 4, 64).to(dtype).transpose(1, 2) for _ in range(3))
    yield "strided", _both(q * 8, k * 8, v, sinks)
