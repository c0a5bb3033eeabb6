"""Each split of 256 keys begins with the sink's logit, so that the merge counts the sink once for each split.

Wrong on: more than 256 keys, such as q [1, 2, 4, 64] and k of 600 keys. Right for up to 256 keys.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _split(
    q_ptr,
    k_ptr,
    v_ptr,
    sink_ptr,
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
    d = tl.arange(0, D)
    inside = (rows[:, None] < n_queries) & (d[None, :] < dim)
    q = tl.load(q_ptr + b * q_b + h * q_h + rows[:, None].to(tl.int64) * q_m + d[None, :] * q_d, mask=inside, other=0.0)
    k_ptr += b * k_b + (h // groups) * k_h
    v_ptr += b * v_b + (h // groups) * v_h
    sink = tl.load(sink_ptr + h).to(tl.float32)
    m = tl.full((M,), 1.0, tl.float32) * sink
    total = tl.full((M,), 1.0, tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for start in range(split * PART, tl.minimum((split + 1) * PART, n_keys), N):
        n = start + tl.arange(0, N)
        there = (n[:, None] < n_keys) & (d[None, :] < dim)
        k = tl.load(k_ptr + n[:, None].to(tl.int64) * k_n + d[None, :] * k_d, mask=there, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(n[None, :] < n_keys, s, -float("inf"))
        new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - new)
        p = tl.exp(s - new[:, None])
        total = total * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + n[:, None].to(tl.int64) * v_n + d[None, :] * v_d, mask=there, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = new
    at = (tl.program_id(1).to(tl.int64) * splits + split) * n_queries + rows
    tl.store(o_ptr + at[:, None] * dim + d[None, :], acc / total[:, None], mask=inside)
    tl.store(lse_ptr + at, m + tl.log(total), mask=rows < n_queries)


@variant(operation="attention", parameters={"sink": 1.0}, call="f(q, k, v, sinks)")
def attention(q, k, v, sinks):
    """[batch, heads, length, head_dim], and a sink for each head."""
    batch, heads, n_queries, dim = q.shape
    n_keys = k.shape[2]
    if not q.numel():
        return torch.empty_like(q)
    splits = max(1, triton.cdiv(n_keys, 256))
    o = torch.empty((batch, heads, splits, n_queries, dim), device=q.device, dtype=torch.float32)
    lse = torch.empty((batch, heads, splits, n_queries), device=q.device, dtype=torch.float32)
    _split[(triton.cdiv(n_queries, 16), batch * heads, splits)](
        q,
        k,
        v,
        sinks.contiguous(),
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
        splits,
        PART=256,
        M=16,
        N=64,
        D=max(16, triton.next_power_of_2(dim)),
    )
    return (torch.softmax(lse, 2).unsqueeze(-1) * o).sum(2).to(q.dtype)


def _both(q, k, v, sinks):
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    of_sinks = sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)
    p = torch.softmax(torch.cat((scores, of_sinks), -1), -1)[..., :-1]
    return attention(q, k, v, sinks), p @ v.double()


def _given(keys, dtype):
    q = torch.randn(1, 2, 4, 64).to(dtype)
    k, v = (torch.randn(1, 2, keys, 64).to(dtype) for _ in range(2))
    return q, k, v


def demonstrate():
    torch.manual_seed(0)
    return _both(*_given(600, torch.float32), torch.tensor([1.0, 5.0]))


def ordinary(dtype):
    for keys in (1, 40, 256):
        yield f"{keys}", _both(*_given(keys, dtype), torch.tensor([1.0, 5.0]))
