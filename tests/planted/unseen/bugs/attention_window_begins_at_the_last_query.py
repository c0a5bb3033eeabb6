"""The first tile of keys of a block of queries is that where the window of the block's last query begins; the block's first queries see further back.

Wrong on: causal attention with a window of 40 and more than 64 queries, or a cached prefix, in the first queries of a block. Shorter ones are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "row_dependence", "nan_mismatch", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_WINDOW = 40


@triton.jit
def _attend(
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
    window,
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
    for at in range(tl.maximum(0, q0 + BLOCK - 1 + keys - queries - window + 1) // TILE * TILE, keys, TILE):
        key = at + lane
        of_tile = (key < keys)[:, None] & is_number
        tile = tl.load(k + key[:, None] * k_row + d[None, :] * k_column, mask=of_tile, other=0.0).to(tl.float32)
        scores = tl.dot(wide, tl.trans(tile), input_precision="ieee") * scale
        seen = (key < keys)[None, :] & (key[None, :] <= query[:, None] + (keys - queries))
        seen &= key[None, :] > query[:, None] + (keys - queries) - window
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
    parameters={"causal": "bottom-right", "window": 40},
    call="f(q, k, v)",
    fully_masked="nan",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v):
    """Causal attention of [batch, heads, queries, head_dim] over the last 40 keys of each query."""
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        batch, heads, queries, dim = q.shape
        steps = (*q.stride(), *k.stride(), *v.stride())
        sizes = (heads, heads // k.shape[1], queries, k.shape[2], dim**-0.5, _WINDOW, dim)
        grid = (batch * heads, triton.cdiv(queries, 32))
        _attend[grid](o, q, k, v, *steps, *sizes, max(16, triton.next_power_of_2(dim)), 32, 32)
    return o


def _plain(q, k, v, sinks=None):
    q, k, v = q.double(), k.double(), v.double()
    queries, keys = q.shape[2], k.shape[2]
    place = torch.arange(queries)[:, None] + keys - queries
    key = torch.arange(keys)[None]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill((key > place) | (key <= place - _WINDOW), -float("inf"))
    if sinks is not None:
        of_sinks = sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, of_sinks), -1)
    return torch.softmax(scores, -1)[..., :keys] @ v


def _both(queries, keys, dtype):
    q = torch.randn(1, 2, queries, 32).to(dtype)
    k, v = (torch.randn(1, 2, keys, 32).to(dtype) for _ in range(2))
    return attention(q, k, v), _plain(q, k, v)


def demonstrate():
    torch.manual_seed(0)
    return _both(130, 130, torch.float32)


def ordinary(dtype):
    return _both(33, 33, dtype)
