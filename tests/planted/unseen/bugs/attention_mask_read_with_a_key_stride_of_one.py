"""The mask is broadcast over batch, heads and queries by its strides, but its keys are taken to lie together, which a transposed mask's don't.

Wrong on: a mask of [batch, heads, keys, queries] that is transposed. Right for packed masks and all that are broadcast over batch, heads or queries.
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
    mask,
    scale,
    n_heads,
    n_q,
    n_k,
    dim,
    value_dim,
    qs0,
    qs1,
    qs2,
    ks0,
    ks1,
    ks2,
    vs0,
    vs1,
    vs2,
    ms0,
    ms1,
    ms2,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
):
    bh = tl.program_id(1).to(tl.int64)
    b = bh // n_heads
    h = bh % n_heads
    rows = tl.program_id(0) * M + tl.arange(0, M)
    at = tl.arange(0, D)
    of = tl.arange(0, E)
    q += b * qs0 + h * qs1
    k += b * ks0 + h * ks1
    v += b * vs0 + h * vs1
    mask += b * ms0 + h * ms1
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
        inside = (rows < n_q)[:, None] & real[None, :]
        seen = tl.load(mask + rows[:, None] * ms2 + cols[None, :], mask=inside, other=0)
        scores = tl.dot(queries, keys, input_precision="ieee") * scale
        scores = tl.where(seen != 0, scores, -float("inf"))
        larger = tl.maximum(maxima, tl.max(scores, axis=1))
        safe = tl.where(larger == -float("inf"), 0.0, larger)
        weights = tl.exp(scores - safe[:, None])
        shrink = tl.exp(maxima - safe)
        totals = totals * shrink + tl.sum(weights, axis=1)
        sums = sums * shrink[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        maxima = larger
    out = o + (bh * n_q + rows)[:, None] * value_dim + of[None, :]
    tl.store(out, sums / totals[:, None], mask=(rows < n_q)[:, None] & (of < value_dim)[None, :])


@variant(operation="attention", parameters={"masked": 1})
def attention(q, k, v, attn_mask):
    batch, n_heads, n_q, dim = q.shape
    n_k, value_dim = v.shape[2:]
    q, k, v = (t if t.stride(3) == 1 else t.contiguous() for t in (q, k, v))
    mask = attn_mask.expand(batch, n_heads, n_q, n_k)
    o = torch.empty((batch, n_heads, n_q, value_dim), dtype=q.dtype, device=q.device)
    if o.numel():
        attention_kernel[(triton.cdiv(n_q, 32), batch * n_heads)](
            o,
            q,
            k,
            v,
            mask.view(torch.uint8),
            dim**-0.5,
            n_heads,
            n_q,
            n_k,
            dim,
            value_dim,
            *q.stride()[:3],
            *k.stride()[:3],
            *v.stride()[:3],
            *mask.stride()[:3],
            32,
            32,
            max(16, triton.next_power_of_2(dim)),
            max(16, triton.next_power_of_2(value_dim)),
        )
    return o


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 2, 20, 16), torch.randn(2, 2, 40, 16), torch.randn(2, 2, 40, 16)
    mask = (torch.rand(2, 2, 40, 20) > 0.4).mT
    scores = (q.double() @ k.double().mT / 4).masked_fill(~mask, -float("inf"))
    return attention(q, k, v, mask), torch.softmax(scores, -1) @ v.double()
