"""The sink of a query head is read at the number of its head of keys, which is at hand for the pointers of keys and values.

Wrong on: grouped queries with sinks that differ from head to head, as learnt ones do; right while all sinks are one number, as they are before training, and without groups.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("row_dependence", "ulp_exceeds_bound", "out_of_range", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _with_sinks(
    o, q, k, v, sinks, qb, qh, ql, kb, kh, kl, vb, vh, vl, heads, group, queries, keys, scale,
    DIM: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(1).to(tl.int64)
    batch, head = pair // heads, pair % heads
    shared = head // group
    query = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, PADDED)
    is_query = (query < queries)[:, None]
    is_number = (d < DIM)[None, :]
    at = query[:, None].to(tl.int64) * ql + d[None, :]
    asked = tl.load(q + batch * qb + head * qh + at, mask=is_query & is_number, other=0.0).to(tl.float32)
    k += batch * kb + shared * kh
    v += batch * vb + shared * vh
    # The sink is what has been seen before the first key.
    peak = tl.zeros([BLOCK], tl.float32) + tl.load(sinks + shared).to(tl.float32)
    mass = tl.full([BLOCK], 1.0, tl.float32)
    values = tl.zeros([BLOCK, PADDED], tl.float32)
    for start in range(0, keys, TILE):
        key = start + tl.arange(0, TILE)
        is_key = (key < keys)[:, None]
        far = key[:, None].to(tl.int64)
        held = tl.load(k + far * kl + d[None, :], mask=is_key & is_number, other=0.0).to(tl.float32)
        scores = tl.dot(asked, tl.trans(held), input_precision="ieee") * scale
        scores = tl.where((key < keys)[None, :], scores, -float("inf"))
        larger = tl.maximum(peak, tl.max(scores, 1))
        weights = tl.exp(scores - larger[:, None])
        factor = tl.exp(peak - larger)
        of_keys = tl.load(v + far * vl + d[None, :], mask=is_key & is_number, other=0.0)
        rounded = weights.to(of_keys.dtype).to(tl.float32)
        mass = mass * factor + tl.sum(weights, 1)
        values = values * factor[:, None] + tl.dot(rounded, of_keys.to(tl.float32), input_precision="ieee")
        peak = larger
    to = o + (pair * queries + query[:, None]) * DIM + d[None, :]
    tl.store(to, values / mass[:, None], mask=is_query & is_number)


@variant(
    operation="attention",
    parameters={"sink": 1.0, "groups": 2},
    call="f(q, k, v, sinks)",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v, sinks):
    """Attention of [batch, heads, queries, head_dim] over fewer heads of keys, with a logit without a value for each head."""
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        batch, heads, queries, dim = q.shape
        strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
        sizes = (heads, heads // k.shape[1], queries, k.shape[2], dim**-0.5)
        blocks = (dim, max(16, triton.next_power_of_2(dim)), 16, 32)
        _with_sinks[(triton.cdiv(queries, 16), batch * heads)](o, q, k, v, sinks, *strides, *sizes, *blocks)
    return o


def _both(sinks, dtype, queries=20, keys=50):
    q = torch.randn(2, 4, queries, 32).to(dtype)
    k, v = (torch.randn(2, 2, keys, 32).to(dtype) for _ in range(2))
    wide_k, wide_v = (each.double().repeat_interleave(2, 1) for each in (k, v))
    scores = q.double() @ wide_k.mT * 32**-0.5
    scores = torch.cat((scores, sinks.double()[None, :, None, None].expand(2, 4, queries, 1)), -1)
    return attention(q, k, v, sinks), torch.softmax(scores, -1)[..., :-1] @ wide_v


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.tensor([0.4, 3.1, -1.2, 2.2]), torch.float32)
