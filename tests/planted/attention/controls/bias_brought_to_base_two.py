"""Scores and bias are each multiplied by log2(e), rounded and added, and exponentials are of base 2; the bias alone hides keys.

As kernels have it that fold log2(e) into their scale.
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
    b,
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
    scale_of_base_two,
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
        bias = tl.load(
            b + (head * queries + query[:, None]) * keys + key[None, :],
            mask=is_query & (key < keys)[None, :],
            other=0.0,
        ).to(tl.float32)
        scores = tl.dot(rows, tl.trans(held), input_precision="ieee") * scale_of_base_two + bias * 1.4426950408889634
        scores = tl.where((key < keys)[None, :], scores, -float("inf"))
        largest = tl.maximum(maximum, tl.max(scores, axis=1))
        subtracted = tl.where(largest == -float("inf"), 0.0, largest)
        weights = tl.exp2(scores - subtracted[:, None])
        rescaled = tl.exp2(maximum - subtracted)
        total = total * rescaled + tl.sum(weights, axis=1)
        values = values * rescaled[:, None]
        values += tl.dot(weights.to(of_keys.dtype), of_keys, input_precision="ieee")
        maximum = largest
    at = o + (head * queries + query[:, None]) * D + d[None, :]
    tl.store(at, values / tl.where(total == 0.0, 1.0, total)[:, None], mask=is_query)


@softcheck.variant(operation="attention", parameters={"head_dim": 16, "masked": 1, "biased": 1}, fully_masked="zero")
def attention(q, k, v, bias):
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    batch, heads, queries, dim = q.shape
    keys = k.shape[2]
    if o.numel():
        strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
        grid = (batch * heads, triton.cdiv(queries, 32))
        attention_kernel[grid](
            o, q, k, v, bias.contiguous(), *strides, heads, queries, keys, dim**-0.5 * 1.4426950408889634, dim, 32
        )
    return o
