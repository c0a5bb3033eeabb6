"""Right: keys of even and of odd numbers are attended apart, each with a maximum, a sum and values of its own, and the two are merged at the end."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _half(
    asked,
    k,
    v,
    k_row,
    k_column,
    v_row,
    v_column,
    first,
    keys,
    scale,
    DIM: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
):
    """Maximum, sum and values of every second key from ``first`` on."""
    d = tl.arange(0, WIDE).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    peak = tl.full([ROWS], -float("inf"), tl.float32)
    mass = tl.zeros([ROWS], tl.float32)
    held = tl.zeros([ROWS, WIDE], tl.float32)
    for at in range(first, keys, 2 * TILE):
        key = at + 2 * lane
        inside = (key < keys)[:, None] & (d < DIM)[None, :]
        tile = tl.load(k + key[:, None] * k_row + d[None, :] * k_column, mask=inside, other=0.0)
        scores = tl.dot(asked, tl.trans(tile.to(tl.float32)), input_precision="ieee") * scale
        scores = tl.where((key < keys)[None, :], scores, -float("inf"))
        larger = tl.maximum(peak, tl.max(scores, 1))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        weights = tl.exp(scores - shift[:, None])
        kept = tl.exp(peak - shift)
        values = tl.load(v + key[:, None] * v_row + d[None, :] * v_column, mask=inside, other=0.0).to(tl.float32)
        mass = mass * kept + tl.sum(weights, 1)
        held = held * kept[:, None] + tl.dot(weights, values, input_precision="ieee")
        peak = larger
    return peak, mass, held


@triton.jit
def _halves(
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
    queries,
    keys,
    scale,
    DIM: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
):
    place = tl.program_id(0).to(tl.int64)
    batch, head = place // heads, place % heads
    row = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    d = tl.arange(0, WIDE).to(tl.int64)
    inside = (row < queries)[:, None] & (d < DIM)[None, :]
    q += batch * q_batch + head * q_head
    k += batch * k_batch + head * k_head
    v += batch * v_batch + head * v_head
    asked = tl.load(q + row[:, None] * q_row + d[None, :] * q_column, mask=inside, other=0.0).to(tl.float32)
    peak_0, mass_0, held_0 = _half(asked, k, v, k_row, k_column, v_row, v_column, 0, keys, scale, DIM, WIDE, ROWS, TILE)
    peak_1, mass_1, held_1 = _half(asked, k, v, k_row, k_column, v_row, v_column, 1, keys, scale, DIM, WIDE, ROWS, TILE)
    larger = tl.maximum(peak_0, peak_1)
    shift = tl.where(larger == -float("inf"), 0.0, larger)
    of_0, of_1 = tl.exp(peak_0 - shift), tl.exp(peak_1 - shift)
    answer = (held_0 * of_0[:, None] + held_1 * of_1[:, None]) / (mass_0 * of_0 + mass_1 * of_1)[:, None]
    tl.store(o + (place * queries + row[:, None]) * DIM + d[None, :], answer, mask=inside)


@variant(operation="attention", call="f(q, k, v)", dtypes=("float16", "bfloat16", "float32"))
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim] over [batch, heads, keys, head_dim]."""
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        batch, heads, queries, dim = q.shape
        steps = (*q.stride(), *k.stride(), *v.stride())
        sizes = (heads, queries, k.shape[2], dim**-0.5, dim, max(16, triton.next_power_of_2(dim)))
        _halves[(batch * heads, triton.cdiv(queries, 32))](o, q, k, v, *steps, *sizes, 32, 16)
    return o
