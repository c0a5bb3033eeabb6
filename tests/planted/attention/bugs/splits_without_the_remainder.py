"""Each part takes the keys divided by ``num_splits``, rounded down: with several parts the last few keys are in none.

From experience: one part, as by default, is right. The parts are those of Flash-Decoding (Dao and others, 2023), whose last part is shorter than the others.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("probe/meetings",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def attention_kernel(
    parts,
    maxima,
    totals,
    q,
    k,
    v,
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
    queries,
    keys,
    of_part,
    scale,
    D: tl.constexpr,
    TILE: tl.constexpr,
):
    head = tl.program_id(0).to(tl.int64)
    batch, number = head // heads, head % heads
    query = tl.program_id(1) * TILE + tl.arange(0, TILE)
    d, lane = tl.arange(0, D), tl.arange(0, TILE)
    is_query = (query < queries)[:, None]
    rows = tl.load(
        q + batch * q_batch + number * q_head + query[:, None] * q_row + d[None, :], mask=is_query, other=0.0
    )
    maximum = tl.full((TILE,), -float("inf"), tl.float32)
    total = tl.zeros((TILE,), tl.float32)
    values = tl.zeros((TILE, D), tl.float32)
    part = tl.program_id(2)
    first, last = part * of_part, (part + 1) * of_part
    for start in range(first, last, TILE):
        key = start + lane
        is_key = (key < last)[:, None]
        held = tl.load(
            k + batch * k_batch + number * k_head + key[:, None] * k_row + d[None, :], mask=is_key, other=0.0
        )
        of_keys = tl.load(
            v + batch * v_batch + number * v_head + key[:, None] * v_row + d[None, :], mask=is_key, other=0.0
        )
        scores = tl.dot(rows, tl.trans(held), input_precision="ieee") * scale
        scores = tl.where((key < last)[None, :], scores, -float("inf"))
        largest = tl.maximum(maximum, tl.max(scores, axis=1))
        weights = tl.exp(scores - largest[:, None])
        rescaled = tl.exp(maximum - largest)
        total = total * rescaled + tl.sum(weights, axis=1)
        values = values * rescaled[:, None]
        values += tl.dot(weights.to(of_keys.dtype), of_keys, input_precision="ieee")
        maximum = largest
    row = (part * tl.num_programs(0) + head) * queries + query
    tl.store(maxima + row, maximum, mask=query < queries)
    tl.store(totals + row, total, mask=query < queries)
    tl.store(parts + row[:, None] * D + d[None, :], values, mask=is_query)


@softcheck.variant(operation="attention", parameters={"head_dim": 16})
def attention(q, k, v, num_splits=1):
    batch, heads, queries, dim = q.shape
    keys = k.shape[2]
    if not q.numel():
        return torch.empty_like(q)
    parts = torch.empty(num_splits, *q.shape, dtype=torch.float32, device=q.device)
    maxima, totals = torch.empty(2, num_splits, *q.shape[:3], dtype=torch.float32, device=q.device)
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    grid = (batch * heads, triton.cdiv(queries, 16), num_splits)
    attention_kernel[grid](
        parts, maxima, totals, q, k, v, *strides, heads, queries, keys, keys // num_splits, dim**-0.5, dim, 16
    )
    shares = torch.exp(maxima - maxima.amax(dim=0))
    return ((parts * shares[..., None]).sum(dim=0) / (totals * shares).sum(dim=0)[..., None]).to(q.dtype)
