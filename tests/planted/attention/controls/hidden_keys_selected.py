"""Hidden scores are replaced, hidden values taken as 0 whatever they are, and a query that sees nothing gives 0, as declared.

What a cache with an unwritten tail asks for.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def attention_kernel(
    o,
    q,
    k,
    v,
    keep,
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
    for start in range(0, keys, TILE):
        key = start + lane
        is_key = (key < keys)[:, None]
        held = tl.load(
            k + batch * k_batch + number * k_head + key[:, None] * k_row + d[None, :], mask=is_key, other=0.0
        )
        of_keys = tl.load(
            v + batch * v_batch + number * v_head + key[:, None] * v_row + d[None, :], mask=is_key, other=0.0
        )
        scores = tl.dot(rows, tl.trans(held), input_precision="ieee") * scale
        seen = tl.load(
            keep + (head * queries + query[:, None]) * keys + key[None, :],
            mask=is_query & (key < keys)[None, :],
            other=0,
        )
        scores = tl.where(seen != 0, scores, -float("inf"))
        of_keys = tl.where(tl.max(seen, axis=0)[:, None] != 0, of_keys, 0.0).to(v.dtype.element_ty)
        largest = tl.maximum(maximum, tl.max(scores, axis=1))
        subtracted = tl.where(largest == -float("inf"), 0.0, largest)
        weights = tl.exp(scores - subtracted[:, None])
        rescaled = tl.exp(maximum - subtracted)
        total = total * rescaled + tl.sum(weights, axis=1)
        values = values * rescaled[:, None]
        values += tl.dot(weights.to(of_keys.dtype), of_keys, input_precision="ieee")
        maximum = largest
    at = o + (head * queries + query[:, None]) * D + d[None, :]
    tl.store(at, values / tl.where(total == 0.0, 1.0, total)[:, None], mask=is_query)


@softcheck.variant(
    operation="attention", parameters={"head_dim": 16, "masked": 1, "ignores_nan": 1}, fully_masked="zero"
)
def attention(q, k, v, keep):
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    batch, heads, queries, dim = q.shape
    keys = k.shape[2]
    if o.numel():
        strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
        grid = (batch * heads, triton.cdiv(queries, 32))
        attention_kernel[grid](
            o, q, k, v, keep.contiguous().view(torch.uint8), *strides, heads, queries, keys, dim**-0.5, dim, 32
        )
    return o
