"""Right: what is subtracted is the product of lengths, which no score exceeds; queries whose maximum is more than 8 below it take the maximum."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
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
    length = tl.load(longest + batch * (heads // group) + head // group)
    bound = tl.sqrt(tl.sum(wide * wide, 1)) * length * scale
    # A first pass tells whether the bound is near enough to the maximum.
    peak = tl.full([BLOCK], -float("inf"), tl.float32)
    for at in range(0, keys, TILE):
        key = at + lane
        of_tile = (key < keys)[:, None] & is_number
        tile = tl.load(k + key[:, None] * k_row + d[None, :] * k_column, mask=of_tile, other=0.0).to(tl.float32)
        scores = tl.dot(wide, tl.trans(tile), input_precision="ieee") * scale
        scores = tl.where((key < keys)[None, :] & is_query, scores, -float("inf"))
        peak = tl.maximum(peak, tl.max(scores, 1))
    # A bound that overflowed, or is NaN, isn't below anything.
    shift = tl.where(bound - peak < 8.0, bound, tl.where(peak == -float("inf"), 0.0, peak))
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
    longest = torch.linalg.vector_norm(k.float(), dim=-1).amax(-1).contiguous() if k.numel() else k
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        batch, heads, queries, dim = q.shape
        steps = (*q.stride(), *k.stride(), *v.stride())
        sizes = (heads, heads // k.shape[1], queries, k.shape[2], dim**-0.5, dim)
        grid = (batch * heads, triton.cdiv(queries, 32))
        _attend[grid](o, q, k, v, longest, *steps, *sizes, max(16, triton.next_power_of_2(dim)), 32, 32)
    return o


def ordinary(dtype):
    for scale in (1.0, 8.0, 30.0):
        q, k, v = (torch.randn(1, 2, 33, 32) for _ in range(3))
        q, k, v = (q * scale).to(dtype), (k * scale).to(dtype), v.to(dtype)
        yield str(scale), (attention(q, k, v), torch.softmax(q.double() @ k.double().mT / 32**0.5, -1) @ v.double())
    k[:, :, 3:] = -20 * q[:, :, :1]
    yield "opposite", (attention(q, k, v), torch.softmax(q.double() @ k.double().mT / 32**0.5, -1) @ v.double())
