"""Right: keys are the rows of the tile of scores and queries its columns, and the output is built head_dim by queries and turned at the end."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _turned(
    o,
    q,
    k,
    v,
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
    COLUMNS: tl.constexpr,
    TILE: tl.constexpr,
):
    place = tl.program_id(0).to(tl.int64)
    batch, head = place // heads, place % heads
    query = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)).to(tl.int64)
    d = tl.arange(0, WIDE).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    q += batch * q_batch + head * q_head
    k += batch * k_batch + (head // group) * k_head
    v += batch * v_batch + (head // group) * v_head
    is_query = (query < queries)[None, :]
    is_number = (d < DIM)[:, None]
    turned = tl.load(q + query[None, :] * q_row + d[:, None] * q_column, mask=is_query & is_number, other=0.0).to(
        tl.float32
    )
    peak = tl.full([COLUMNS], -float("inf"), tl.float32)
    mass = tl.zeros([COLUMNS], tl.float32)
    held = tl.zeros([WIDE, COLUMNS], tl.float32)
    for at in range(0, keys, TILE):
        key = at + lane
        of_keys = k + key[:, None] * k_row + d[None, :] * k_column
        tile = tl.load(of_keys, mask=(key < keys)[:, None] & (d < DIM)[None, :], other=0.0).to(tl.float32)
        scores = tl.dot(tile, turned, input_precision="ieee") * scale
        seen = (key < keys)[:, None] & (key[:, None] <= query[None, :] + (keys - queries))
        scores = tl.where(seen, scores, -float("inf"))
        larger = tl.maximum(peak, tl.max(scores, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        weights = tl.exp(scores - shift[None, :])
        kept = tl.exp(peak - shift)
        of_values = v + key[None, :] * v_row + d[:, None] * v_column
        values = tl.load(of_values, mask=(key < keys)[None, :] & is_number, other=0.0).to(tl.float32)
        mass = mass * kept + tl.sum(weights, 0)
        held = held * kept[None, :] + tl.dot(values, weights, input_precision="ieee")
        peak = larger
    answer = tl.trans(held / mass[None, :])
    at = o + (place * queries + query[:, None]) * DIM + d[None, :]
    tl.store(at, answer, mask=(query < queries)[:, None] & (d < DIM)[None, :])


@variant(
    operation="attention",
    parameters={"causal": "bottom-right", "groups": 2},
    call="f(q, k, v)",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v):
    """Causal attention of [batch, heads, queries, head_dim] over [batch, heads of keys, keys, head_dim]."""
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        batch, heads, queries, dim = q.shape
        steps = (*q.stride(), *k.stride(), *v.stride())
        sizes = (heads, heads // k.shape[1], queries, k.shape[2], dim**-0.5, dim)
        grid = (batch * heads, triton.cdiv(queries, 32))
        _turned[grid](o, q, k, v, *steps, *sizes, max(16, triton.next_power_of_2(dim)), 32, 32)
    return o
