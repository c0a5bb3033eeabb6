"""Right: sinks, one for each query head of a group, join at the end, about the larger of the sink and the scores' maximum; a block of queries visits the tiles from its first query's to its last query's key."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_WINDOW = 40


@triton.jit
def _joined(
    o, q, k, v, sinks, qb, qh, ql, kb, kh, kl, vb, vh, vl, sink_step, heads, group, queries, keys, scale,
    WINDOW: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(0).to(tl.int64)
    batch, head = pair // heads, pair % heads
    begin = tl.program_id(1) * BLOCK
    query = begin + tl.arange(0, BLOCK)
    d = tl.arange(0, PADDED)
    is_query = (query < queries)[:, None]
    is_number = (d < DIM)[None, :]
    at = query[:, None].to(tl.int64) * ql + d[None, :]
    asked = tl.load(q + batch * qb + head * qh + at, mask=is_query & is_number, other=0.0).to(tl.float32)
    k += batch * kb + (head // group) * kh
    v += batch * vb + (head // group) * vh
    place = query + (keys - queries)
    nearest = tl.minimum(begin + BLOCK + (keys - queries), keys)
    farthest = tl.maximum(begin + (keys - queries) - WINDOW + 1, 0)
    peak = tl.full([BLOCK], -float("inf"), tl.float32)
    mass = tl.zeros([BLOCK], tl.float32)
    values = tl.zeros([BLOCK, PADDED], tl.float32)
    for start in range(farthest, nearest, TILE):
        key = start + tl.arange(0, TILE)
        is_key = (key < keys)[:, None]
        far = key[:, None].to(tl.int64)
        held = tl.load(k + far * kl + d[None, :], mask=is_key & is_number, other=0.0).to(tl.float32)
        scores = tl.dot(asked, tl.trans(held), input_precision="ieee") * scale
        seen = (key[None, :] <= place[:, None]) & (key[None, :] > place[:, None] - WINDOW) & (key < keys)[None, :]
        scores = tl.where(seen, scores, -float("inf"))
        larger = tl.maximum(peak, tl.max(scores, 1))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        weights = tl.exp(scores - shift[:, None])
        factor = tl.exp(peak - shift)
        of_keys = tl.load(v + far * vl + d[None, :], mask=is_key & is_number, other=0.0)
        rounded = weights.to(of_keys.dtype).to(tl.float32)
        mass = mass * factor + tl.sum(weights, 1)
        values = values * factor[:, None] + tl.dot(rounded, of_keys.to(tl.float32), input_precision="ieee")
        peak = larger
    sink = tl.load(sinks + head * sink_step).to(tl.float32)
    top = tl.maximum(peak, sink)
    factor = tl.exp(peak - top)
    mass = mass * factor + tl.exp(sink - top)
    to = o + (pair * queries + query[:, None]) * DIM + d[None, :]
    tl.store(to, values * factor[:, None] / mass[:, None], mask=is_query & is_number)


@variant(
    operation="attention",
    parameters={"causal": "bottom-right", "window": _WINDOW, "sink": 1.0, "groups": 2},
    call="f(q, k, v, sinks)",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v, sinks):
    """Causal attention of [batch, heads, queries, head_dim] over the last 40 keys of each query, with a sink for each head."""
    q, k, v = (each if each.stride(-1) == 1 else each.contiguous() for each in (q, k, v))
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        batch, heads, queries, dim = q.shape
        strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], sinks.stride(0))
        sizes = (heads, heads // k.shape[1], queries, k.shape[2], dim**-0.5)
        blocks = (_WINDOW, dim, max(16, triton.next_power_of_2(dim)), 32, 32)
        _joined[(batch * heads, triton.cdiv(queries, 32))](o, q, k, v, sinks, *strides, *sizes, *blocks)
    return o
