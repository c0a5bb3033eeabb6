"""A query that sees no key gets a sum of 1, so that nothing is divided by 0, and its log-sum-exp is log 1 about a shift of 0 where -inf belongs.

Wrong on: a causal mask that ends at the last key with more queries than keys: a merge with other keys then weighs nothing as e^0. Others are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("inf_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _attend(
    o,
    q,
    k,
    v,
    lse,
    q_batch,
    q_head,
    q_row,
    q_column,
    k_batch,
    k_head,
    k_row,
    k_column,
    v_batch,
    v_head,
    v_row,
    v_column,
    heads,
    group,
    queries,
    keys,
    scale,
    DIM: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    place = tl.program_id(0).to(tl.int64)
    batch, head = place // heads, place % heads
    q0 = tl.program_id(1) * BLOCK
    query = (q0 + tl.arange(0, BLOCK)).to(tl.int64)
    d = tl.arange(0, WIDE).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    q += batch * q_batch + head * q_head
    k += batch * k_batch + (head // group) * k_head
    v += batch * v_batch + (head // group) * v_head
    is_query = (query < queries)[:, None]
    is_number = (d < DIM)[None, :]
    held = tl.load(q + query[:, None] * q_row + d[None, :] * q_column, mask=is_query & is_number, other=0.0)
    wide = held.to(tl.float32)
    peak = tl.full([BLOCK], -float("inf"), tl.float32)
    mass = tl.zeros([BLOCK], tl.float32)
    values = tl.zeros([BLOCK, WIDE], tl.float32)
    for at in range(0, keys, TILE):
        key = at + lane
        of_tile = (key < keys)[:, None] & is_number
        tile = tl.load(k + key[:, None] * k_row + d[None, :] * k_column, mask=of_tile, other=0.0).to(tl.float32)
        scores = tl.dot(wide, tl.trans(tile), input_precision="ieee") * scale
        seen = (key < keys)[None, :] & (key[None, :] <= query[:, None] + (keys - queries))
        scores = tl.where(seen, scores, -float("inf"))
        larger = tl.maximum(peak, tl.max(scores, 1))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        weights = tl.exp(scores - shift[:, None])
        kept = tl.exp(peak - shift)
        mass = mass * kept + tl.sum(weights, 1)
        values = values * kept[:, None]
        peak = larger
        tile = tl.load(v + key[:, None] * v_row + d[None, :] * v_column, mask=of_tile, other=0.0).to(tl.float32)
        values += tl.dot(weights, tile, input_precision="ieee")
    mass = tl.where(mass == 0.0, 1.0, mass)
    shift = tl.where(peak == -float("inf"), 0.0, peak)
    tl.store(lse + place * queries + query, shift + tl.log(mass), mask=query < queries)
    at_o = o + (place * queries + query[:, None]) * DIM + d[None, :]
    tl.store(at_o, values / mass[:, None], mask=is_query & is_number)


@variant(
    operation="attention_logsumexp",
    parameters={"causal": "bottom-right"},
    call="f(q, k, v)[1]",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention_logsumexp(q, k, v):
    """Causal attention of [batch, heads, queries, head_dim] and the log-sum-exp of each query, in float32."""
    lse = torch.full(q.shape[:3], -float("inf"), dtype=torch.float32, device=q.device)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        batch, heads, queries, dim = q.shape
        steps = (*q.stride(), *k.stride(), *v.stride())
        sizes = (heads, heads // k.shape[1], queries, k.shape[2], dim**-0.5, dim)
        grid = (batch * heads, triton.cdiv(queries, 32))
        _attend[grid](o, q, k, v, lse, *steps, *sizes, max(16, triton.next_power_of_2(dim)), 32, 32)
    return o, lse


def _both(queries, keys, dtype):
    q = torch.randn(1, 2, queries, 32).to(dtype)
    k, v = (torch.randn(1, 2, keys, 32).to(dtype) for _ in range(2))
    hidden = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1)
    scores = (q.double() @ k.double().mT / 32**0.5).masked_fill(hidden, -float("inf"))
    return attention_logsumexp(q, k, v)[1], torch.logsumexp(scores, -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(40, 30, torch.float32)


def ordinary(dtype):
    yield "square", _both(33, 33, dtype)
    yield "prefix", _both(33, 70, dtype)
