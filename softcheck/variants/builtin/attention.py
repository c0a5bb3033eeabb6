"""Attention: one pass over the keys with a running maximum, and keys split among programs."""

import torch
import triton
import triton.language as tl

from softcheck.variants.builtin._common import jit, new_output
from softcheck.variants.builtin.declarations import declared

_QUERIES, _KEYS = 32, 32
"""Queries and keys of a tile."""


@jit
def _attended(
    operands,
    strides,
    sizes,
    query,
    first,
    last,
    scale,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    BIASED: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    """Maximum, sum and weighted values of the keys from ``first`` to ``last``; the maximum is -inf if none is seen.

    ``operands`` are queries, keys, values and a mask, whose ``strides`` are those of batches, heads and rows, and ``sizes`` the heads, the
    query heads that share keys, the queries and the keys.
    """
    q, k, v, mask = operands
    q_batch, q_head, q_stride, k_batch, k_head, k_stride, v_batch, v_head, v_stride = strides
    heads, groups, queries, keys = sizes
    head = tl.program_id(0).to(tl.int64)
    batch, number = head // heads, head % heads
    shared = number // groups
    q += batch * q_batch + number * q_head
    k += batch * k_batch + shared * k_head
    v += batch * v_batch + shared * v_head
    mask += head * queries * keys
    lane, column = tl.arange(0, TILE), tl.arange(0, BLOCK_DIM)
    is_number = (column < DIM)[None, :]
    rows = tl.load(
        q + query[:, None].to(tl.int64) * q_stride + column[None, :],
        mask=(query < queries)[:, None] & is_number,
        other=0.0,
    )
    maximum = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    values = tl.zeros((BLOCK, BLOCK_DIM), tl.float32)
    for start in range(first, last, TILE):
        key = start + lane
        is_key = key < last
        of_tile = is_key[:, None] & is_number
        place = key[:, None].to(tl.int64)
        tile = tl.load(k + place * k_stride + column[None, :], mask=of_tile, other=0.0)
        scores = tl.dot(rows, tl.trans(tile), input_precision="ieee") * scale
        seen = (query < queries)[:, None] & is_key[None, :]
        if CAUSAL:
            seen &= key[None, :] <= query[:, None] + (keys - queries)
        at = mask + query[:, None].to(tl.int64) * keys + key[None, :]
        if MASKED:
            seen &= tl.load(at, mask=seen, other=0) != 0
        if BIASED:
            scores += tl.load(at, mask=seen, other=0.0).to(tl.float32)
        scores = tl.where(seen, scores, -float("inf"))
        largest = tl.maximum(maximum, tl.max(scores, axis=1))
        # Nothing is subtracted as long as no key is seen, since the difference of two infinities is NaN.
        subtracted = tl.where(largest == -float("inf"), 0.0, largest)
        weights = tl.exp(scores - subtracted[:, None])
        rescaled = tl.exp(maximum - subtracted)
        total = total * rescaled + tl.sum(weights, axis=1)
        held = tl.load(v + place * v_stride + column[None, :], mask=of_tile, other=0.0)
        values = values * rescaled[:, None]
        values += tl.dot(weights.to(held.dtype), held, input_precision="ieee")
        maximum = largest
    return maximum, total, values


@jit
def _online_kernel(
    o,
    operands,
    strides,
    sizes,
    scale,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    BIASED: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    _, _, queries, keys = sizes
    query = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    options: tl.constexpr = (CAUSAL, MASKED, BIASED, DIM, BLOCK_DIM, BLOCK, TILE)
    _, total, values = _attended(operands, strides, sizes, query, 0, keys, scale, *options)
    column = tl.arange(0, BLOCK_DIM)
    at = o + (tl.program_id(0).to(tl.int64) * queries + query[:, None]) * DIM + column[None, :]
    tl.store(at, values / total[:, None], mask=(query < queries)[:, None] & (column < DIM)[None, :])


def _online(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keep: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    *,
    causal: bool = False,
) -> torch.Tensor:
    o = new_output(q)
    if o.numel():
        batch, heads, queries, dim = q.shape
        keys, groups = k.shape[2], heads // k.shape[1]
        strides = tuple(stride for tensor in (q, k, v) for stride in tensor.stride()[:3])
        mask = q if bias is None else bias.contiguous()
        mask = mask if keep is None else keep.contiguous().view(torch.uint8)
        options = (dim**-0.5, causal, keep is not None, bias is not None, dim)
        tiles = (max(16, triton.next_power_of_2(dim)), _QUERIES, _KEYS)
        grid, sizes = (batch * heads, triton.cdiv(queries, _QUERIES)), (heads, groups, queries, keys)
        _online_kernel[grid](o, (q, k, v, mask), strides, sizes, *options, *tiles, num_warps=4)
    return o


@declared("attention_online")
def attention_online(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] over [batch, heads, keys, dimension]."""
    return _online(q, k, v)


@declared("attention_online_causal")
def attention_online_causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention of [batch, heads, queries, dimension] over [batch, fewer heads, keys, dimension]."""
    return _online(q, k, v, causal=True)


@declared("attention_online_masked")
def attention_online_masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] with a mask [batch, heads, queries, keys], True where a key is seen."""
    return _online(q, k, v, keep)


@declared("attention_online_biased")
def attention_online_biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] with a bias [batch, heads, queries, keys]."""
    return _online(q, k, v, bias=bias)


@jit
def _part_kernel(
    values_of,
    maximum_of,
    total_of,
    operands,
    strides,
    sizes,
    of_part,
    scale,
    DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    _, _, queries, keys = sizes
    query = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    head, part = tl.program_id(0).to(tl.int64), tl.program_id(2)
    first, last = part * of_part, tl.minimum(part * of_part + of_part, keys)
    options: tl.constexpr = (False, False, False, DIM, BLOCK_DIM, BLOCK, TILE)
    maximum, total, values = _attended(operands, strides, sizes, query, first, last, scale, *options)
    column = tl.arange(0, BLOCK_DIM)
    row = (part * tl.num_programs(0) + head) * queries + query
    tl.store(maximum_of + row, maximum, mask=query < queries)
    tl.store(total_of + row, total, mask=query < queries)
    is_inside = (query < queries)[:, None] & (column < DIM)[None, :]
    tl.store(values_of + row[:, None] * DIM + column[None, :], values, mask=is_inside)


@jit
def _merge_kernel(
    o,
    logsumexp,
    values_of,
    maximum_of,
    total_of,
    rows,
    parts,
    PARTS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    part, column = tl.arange(0, PARTS), tl.arange(0, BLOCK_DIM)
    at = part * rows + row
    maximum = tl.load(maximum_of + at, mask=part < parts, other=-float("inf"))
    largest = tl.max(maximum, axis=0)
    # As in _attended: a query that sees no key has a sum of 0, whose logarithm is -inf.
    share = tl.exp(maximum - tl.where(largest == -float("inf"), 0.0, largest))
    total = tl.sum(tl.load(total_of + at, mask=part < parts, other=0.0) * share, axis=0)
    inside = (part < parts)[:, None] & (column < DIM)[None, :]
    values = tl.load(values_of + at[:, None] * DIM + column[None, :], mask=inside, other=0.0)
    merged = tl.sum(values * share[:, None], axis=0) / total
    tl.store(o + row * DIM + column, merged, mask=column < DIM)
    tl.store(logsumexp + row, largest + tl.log(total))


def _split(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, num_splits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The attention, and the float32 log-sum-exp [batch, heads, queries] that a caller merges further answers by."""
    o = new_output(q)
    batch, heads, queries, dim = q.shape
    logsumexp = torch.empty((batch, heads, queries), dtype=torch.float32, device=q.device)
    if o.numel():
        keys, rows = k.shape[2], batch * heads * queries
        values = torch.empty((num_splits, rows, dim), dtype=torch.float32, device=q.device)
        maximum, total = torch.empty((2, num_splits, rows), dtype=torch.float32, device=q.device)
        strides = tuple(stride for tensor in (q, k, v) for stride in tensor.stride()[:3])
        options = (triton.cdiv(keys, num_splits), dim**-0.5, dim)
        block = max(16, triton.next_power_of_2(dim))
        grid, sizes = (batch * heads, triton.cdiv(queries, _QUERIES), num_splits), (heads, 1, queries, keys)
        parts_of, operands = (values, maximum, total), (q, k, v, q)
        _part_kernel[grid](*parts_of, operands, strides, sizes, *options, block, _QUERIES, _KEYS, num_warps=4)
        parts = triton.next_power_of_2(num_splits)
        _merge_kernel[(rows,)](o, logsumexp, values, maximum, total, rows, num_splits, parts, dim, block, num_warps=4)
    return o, logsumexp


@declared("attention_split_keys")
def attention_split_keys(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, num_splits: int = 4) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] over [batch, heads, keys, dimension]."""
    return _split(q, k, v, num_splits)[0]


@declared("attention_split_keys_logsumexp")
def attention_split_keys_logsumexp(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, num_splits: int = 4
) -> torch.Tensor:
    """Logarithms of the sums of exponentials of each query's scores, float32 [batch, heads, queries]."""
    return _split(q, k, v, num_splits)[1]
