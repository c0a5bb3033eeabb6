"""Right: tiles of keys are visited from the last to the first, and weights are powers of two of differences times log2(e)."""

import torch
import triton
import triton.language as tl

from softcheck import variant
from softcheck.operations.arithmetic import Arithmetic

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _kernel(
    o,
    q,
    k,
    v,
    mask,
    q_batch,
    q_head,
    q_row,
    k_batch,
    k_head,
    k_row,
    v_batch,
    v_head,
    v_row,
    heads,
    groups,
    queries,
    keys,
    scale,
    DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    head = tl.program_id(0).to(tl.int64)
    first_query = tl.program_id(1) * BLOCK
    query = first_query + tl.arange(0, BLOCK)
    batch, number = head // heads, head % heads
    shared = number // groups
    q += batch * q_batch + number * q_head
    k += batch * k_batch + shared * k_head
    v += batch * v_batch + shared * v_head
    dim = tl.arange(0, BLOCK_DIM)
    lane = tl.arange(0, TILE)
    is_dim = (dim < DIM)[None, :]
    is_query = (query < queries)[:, None]
    rows = tl.load(q + query[:, None].to(tl.int64) * q_row + dim[None, :], mask=is_query & is_dim, other=0.0)
    maximum = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    values = tl.zeros((BLOCK, BLOCK_DIM), tl.float32)
    last = keys
    tiles = (last + TILE - 1) // TILE
    for turn in range(tiles):
        start = (tiles - 1 - turn) * TILE
        key = start + lane
        is_key = key < keys
        place = key[:, None].to(tl.int64)
        tile = tl.load(k + place * k_row + dim[None, :], mask=is_key[:, None] & is_dim, other=0.0)
        scores = tl.dot(rows.to(tl.float32), tl.trans(tile.to(tl.float32)), input_precision="ieee") * scale
        seen = is_query & is_key[None, :]
        scores = tl.where(seen, scores, -float("inf"))
        largest = tl.maximum(maximum, tl.max(scores, axis=1))
        subtracted = tl.where(largest == -float("inf"), 0.0, largest)
        weights = tl.exp2((scores - subtracted[:, None]) * _LOG2_E)
        rescaled = tl.exp2((maximum - subtracted) * _LOG2_E)
        held = tl.load(v + place * v_row + dim[None, :], mask=is_key[:, None] & is_dim, other=0.0)
        total = total * rescaled + tl.sum(weights, axis=1)
        values = values * rescaled[:, None]
        values += tl.dot(weights.to(held.dtype).to(tl.float32), held.to(tl.float32), input_precision="ieee")
        maximum = largest
    at = o + (head * queries + query[:, None]) * DIM + dim[None, :]
    tl.store(at, values / total[:, None], mask=is_query & is_dim)


@variant(
    operation="attention",
    parameters={},
    call="f(q, k, v)",
    dtypes=("float16", "bfloat16", "float32"),
    arithmetic=Arithmetic(rescales=True, flush_to_zero=True),
)
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim] over [batch, heads of keys, keys, head_dim]."""
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        batch, heads, queries, dim = q.shape
        keys, groups = k.shape[2], heads // k.shape[1]
        strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
        block_dim = max(16, triton.next_power_of_2(dim))
        grid = (batch * heads, triton.cdiv(queries, 32))
        _kernel[grid](o, q, k, v, q, *strides, heads, groups, queries, keys, dim**-0.5, dim, block_dim, 32, 32)
    return o
