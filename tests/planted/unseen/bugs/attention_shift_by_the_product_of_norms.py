"""No running maximum: what is subtracted is the largest score that there can be, the query's length times the longest key's.

Wrong on: long queries and keys at wide angles, whose scores are all 104 and more below that: 0 / 0. Moderate ones are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _attend(
    o,
    q,
    k,
    v,
    longest,
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
    shift = tl.sqrt(tl.sum(wide * wide, 1)) * tl.load(longest + batch * (heads // group) + head // group) * scale
    mass = tl.zeros([BLOCK], tl.float32)
    values = tl.zeros([BLOCK, WIDE], tl.float32)
    for at in range(0, keys, TILE):
        key = at + lane
        of_tile = (key < keys)[:, None] & is_number
        tile = tl.load(k + key[:, None] * k_row + d[None, :] * k_column, mask=of_tile, other=0.0).to(tl.float32)
        scores = tl.dot(wide, tl.trans(tile), input_precision="ieee") * scale
        seen = (key < keys)[None, :] & is_query
        scores = tl.where(seen, scores, -float("inf"))
        weights = tl.exp(scores - shift[:, None])
        mass += tl.sum(weights, 1)
        tile = tl.load(v + key[:, None] * v_row + d[None, :] * v_column, mask=of_tile, other=0.0).to(tl.float32)
        values += tl.dot(weights, tile, input_precision="ieee")
    at_o = o + (place * queries + query[:, None]) * DIM + d[None, :]
    tl.store(at_o, values / mass[:, None], mask=is_query & is_number)


@variant(
    operation="attention",
    call="f(q, k, v)",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim] over [batch, heads, keys, head_dim]."""
    # Cauchy and Schwarz: no score is larger than this, so no tile has to rescale the ones before it.
    longest = torch.linalg.vector_norm(k.float(), dim=-1).amax(-1).contiguous() if k.numel() else k
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        batch, heads, queries, dim = q.shape
        steps = (*q.stride(), *k.stride(), *v.stride())
        sizes = (heads, heads // k.shape[1], queries, k.shape[2], dim**-0.5, dim)
        grid = (batch * heads, triton.cdiv(queries, 32))
        _attend[grid](o, q, k, v, longest, *steps, *sizes, max(16, triton.next_power_of_2(dim)), 32, 32)
    return o


def _both(scale, dtype):
    q, k, v = (torch.randn(1, 2, 33, 32) for _ in range(3))
    q, k, v = (q * scale).to(dtype), (k * scale).to(dtype), v.to(dtype)
    return attention(q, k, v), torch.softmax(q.double() @ k.double().mT / 32**0.5, -1) @ v.double()


def demonstrate():
    torch.manual_seed(0)
    return _both(8.0, torch.float32)


def ordinary(dtype):
    return _both(1.0, dtype)
