"""A tile of 32 keys whose first and last key are hidden is skipped, since padding stands at an end; keys in its middle that are seen are lost.

Wrong on: key padding that leaves a short document in the middle of a tile, behind one that is hidden. Padding at the left or the right is right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _attend(
    o,
    q,
    k,
    v,
    keep,
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
    keep_batch,
    keep_head,
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
    keep += batch * keep_batch + head * keep_head
    values = tl.zeros([BLOCK, WIDE], tl.float32)
    for at in range(0, keys, TILE):
        key = at + lane
        ends = tl.load(keep + at).to(tl.int32) + tl.load(keep + tl.minimum(at + TILE, keys) - 1).to(tl.int32)
        if ends > 0:
            of_tile = (key < keys)[:, None] & is_number
            tile = tl.load(k + key[:, None] * k_row + d[None, :] * k_column, mask=of_tile, other=0.0).to(tl.float32)
            scores = tl.dot(wide, tl.trans(tile), input_precision="ieee") * scale
            seen_keys = tl.load(keep + key, mask=key < keys, other=0) != 0
            seen = seen_keys[None, :] & is_query
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
    at_o = o + (place * queries + query[:, None]) * DIM + d[None, :]
    tl.store(at_o, values / mass[:, None], mask=is_query & is_number)


@variant(
    operation="attention",
    parameters={"masked": 1, "key_padding": 1},
    call="f(q, k, v, keep)",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v, keep):
    """Attention of [batch, heads, queries, head_dim] with a mask [batch, heads, queries, keys] that is the same for all queries of a head."""
    if keep.numel():
        keep = keep[:, :, 0].contiguous().view(torch.uint8)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        batch, heads, queries, dim = q.shape
        steps = (*q.stride(), *k.stride(), *v.stride())
        sizes = (heads, heads // k.shape[1], queries, k.shape[2], dim**-0.5, *keep.stride()[:2], dim)
        grid = (batch * heads, triton.cdiv(queries, 32))
        _attend[grid](o, q, k, v, keep, *steps, *sizes, max(16, triton.next_power_of_2(dim)), 32, 32)
    return o


def _both(seen, dtype):
    q, k, v = (torch.randn(1, 2, 100, 32).to(dtype) for _ in range(3))
    keep = torch.zeros(1, 2, 100, 100, dtype=torch.bool)
    for first, last in seen:
        keep[..., first:last] = True
    scores = (q.double() @ k.double().mT / 32**0.5).masked_fill(~keep, -float("inf"))
    return attention(q, k, v, keep), torch.softmax(scores, -1) @ v.double()


def demonstrate():
    torch.manual_seed(0)
    return _both(((0, 20), (40, 50)), torch.float32)


def ordinary(dtype):
    yield "all", _both(((0, 100),), dtype)
    yield "right", _both(((0, 71),), dtype)
    yield "left", _both(((45, 100),), dtype)
