"""The heads of keys and values are addressed by batch * heads + head with the pitch of a head alone, which is wrong for heads sliced out of a fused tensor of a batch.

Wrong on: q, k and v sliced by heads from one [2, 8, 20, 16]: the second batch reads elsewhere. Right for a batch of 1, for packed heads, for a cache cut to its length, and for [batch, length, heads, dim], which is copied.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_layout", "ulp_exceeds_bound", "nan_mismatch", "out_of_bounds_read", "crash", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def attention_kernel(
    o,
    q,
    k,
    v,
    scale,
    n_heads,
    group,
    n_q,
    n_k,
    dim,
    value_dim,
    qs0,
    qs1,
    qs2,
    ks_head,
    ks2,
    vs_head,
    vs2,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
):
    bh = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * M + tl.arange(0, M)
    at = tl.arange(0, D)
    of = tl.arange(0, E)
    q += bh // n_heads * qs0 + bh % n_heads * qs1
    k += bh // group * ks_head  # query heads of a group lie together, across the batch as well
    v += bh // group * vs_head
    queries = tl.load(
        q + rows[:, None] * qs2 + at[None, :], mask=(rows < n_q)[:, None] & (at < dim)[None, :], other=0.0
    )
    maxima = tl.full((M,), -float("inf"), tl.float32)
    totals = tl.zeros((M,), tl.float32)
    sums = tl.zeros((M, E), tl.float32)
    for start in range(0, n_k, N):
        cols = start + tl.arange(0, N)
        real = cols < n_k
        keys = tl.load(k + cols[None, :] * ks2 + at[:, None], mask=real[None, :] & (at < dim)[:, None], other=0.0)
        values = tl.load(
            v + cols[:, None] * vs2 + of[None, :], mask=real[:, None] & (of < value_dim)[None, :], other=0.0
        )
        scores = tl.dot(queries, keys, input_precision="ieee") * scale
        scores = tl.where(real[None, :], scores, -float("inf"))
        larger = tl.maximum(maxima, tl.max(scores, axis=1))
        safe = tl.where(larger == -float("inf"), 0.0, larger)
        weights = tl.exp(scores - safe[:, None])
        shrink = tl.exp(maxima - safe)
        totals = totals * shrink + tl.sum(weights, axis=1)
        sums = sums * shrink[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        maxima = larger
    out = o + (bh * n_q + rows)[:, None] * value_dim + of[None, :]
    tl.store(out, sums / totals[:, None], mask=(rows < n_q)[:, None] & (of < value_dim)[None, :])


def with_whole_heads(t):
    """Heads whose rows lie one after the other, as in a cache that is cut to its length; others are copied."""
    return t if t.stride(3) == 1 and t.stride(2) == t.shape[3] else t.contiguous()


@variant(operation="attention", parameters={"groups": 2})
def attention(q, k, v):
    batch, n_heads, n_q, dim = q.shape
    n_k, value_dim = v.shape[2:]
    if q.stride(3) != 1:
        q = q.contiguous()
    k, v = with_whole_heads(k), with_whole_heads(v)
    o = torch.empty((batch, n_heads, n_q, value_dim), dtype=q.dtype, device=q.device)
    if o.numel():
        attention_kernel[(triton.cdiv(n_q, 32), batch * n_heads)](
            o,
            q,
            k,
            v,
            dim**-0.5,
            n_heads,
            n_heads // k.shape[1],
            n_q,
            n_k,
            dim,
            value_dim,
            *q.stride()[:3],
            k.stride(1),
            k.stride(2),
            v.stride(1),
            v.stride(2),
            32,
            32,
            max(16, triton.next_power_of_2(dim)),
            max(16, triton.next_power_of_2(value_dim)),
        )
    return o


def _exact(q, k, v):
    q, k, v = q.double(), k.double(), v.double()
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


def demonstrate():
    torch.manual_seed(0)
    fused = torch.randn(2, 8, 20, 16)
    q, k, v = fused[:, :4], fused[:, 4:6], fused[:, 6:]
    return attention(q, k, v), _exact(q, k, v)
