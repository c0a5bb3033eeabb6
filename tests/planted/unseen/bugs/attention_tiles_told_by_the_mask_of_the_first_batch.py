"""Tiles of 32 queries and keys in which the mask hides everything are passed over; which ones they are is found from the mask of the first batch and head.

Wrong on: a batch whose first sequence is shorter than another by a tile and more: the other one loses its last keys. Equal or random masks are right.
"""

import torch
import triton
import triton.language as tl

OPERATION = "attention"
EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "row_dependence", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(
    o, q, k, v, mask, tiles, m_batch, m_head, m_row, heads, queries, keys, scale, DIM: tl.constexpr,
    PADDED: tl.constexpr, MASKED: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1).to(tl.int64)
    q += number * queries * DIM
    k += number * keys * DIM
    v += number * keys * DIM
    query = block * TILE + tl.arange(0, TILE)
    dim = tl.arange(0, PADDED)
    is_dim = (dim < DIM)[None, :]
    is_query = (query < queries)[:, None]
    rows = tl.load(q + query[:, None] * DIM + dim[None, :], mask=is_query & is_dim, other=0.0).to(tl.float32)
    largest = tl.full((TILE,), -float("inf"), tl.float32)
    total = tl.zeros((TILE,), tl.float32)
    found = tl.zeros((TILE, PADDED), tl.float32)
    across = (keys + TILE - 1) // TILE
    for first in range(0, keys, TILE):
        needed = 1
        if MASKED:
            needed = tl.load(tiles + block * across + first // TILE)
        if needed != 0:
            key = first + tl.arange(0, TILE).to(tl.int64)
            is_key = (key < keys)[:, None]
            tile = tl.load(k + key[:, None] * DIM + dim[None, :], mask=is_key & is_dim, other=0.0).to(tl.float32)
            scores = tl.dot(rows, tl.trans(tile), input_precision="ieee") * scale
            seen = is_query & (key < keys)[None, :]
            if MASKED:
                at = mask + (number // heads) * m_batch + (number % heads) * m_head + query[:, None] * m_row
                seen = tl.load(at + key[None, :], mask=seen, other=0) != 0
            scores = tl.where(seen, scores, -float("inf"))
            higher = tl.maximum(largest, tl.max(scores, 1))
            shift = tl.where(higher == -float("inf"), 0.0, higher)
            weights = tl.exp(scores - shift[:, None])
            kept = tl.exp(largest - shift)
            held = tl.load(v + key[:, None] * DIM + dim[None, :], mask=is_key & is_dim, other=0.0).to(tl.float32)
            total = total * kept + tl.sum(weights, 1)
            found = found * kept[:, None] + tl.dot(weights, held, input_precision="ieee")
            largest = higher
    at = o + (number * queries + query[:, None]) * DIM + dim[None, :]
    tl.store(at, found / total[:, None], mask=is_query & is_dim)


def _needed(mask, tile):
    """1 for each tile of a matrix in which something is seen."""
    queries, keys = mask.shape
    padded = torch.nn.functional.pad(mask, (0, -keys % tile, 0, -queries % tile))
    return padded.unflatten(0, (-1, tile)).unflatten(2, (-1, tile)).any(1).any(2).to(torch.int32).contiguous()


def attention(q, k, v, mask=None):
    """Attention of [batch, heads, queries, head_dim]; ``mask``, of a shape that broadcasts, is True where a key is seen."""
    q, k, v = (each.contiguous() for each in (q, k, v))
    batch, heads, queries, dim = q.shape
    keys = k.shape[2]
    o = torch.empty_like(q)
    if not o.numel():
        return o
    strides, bits, tiles = (0, 0, 0), q, q
    if mask is not None:
        bits = mask.expand(batch, heads, queries, keys).to(torch.int8)
        bits = bits if bits.stride(-1) == 1 else bits.contiguous()
        strides, tiles = bits.stride()[:3], _needed(bits[0, 0].bool(), 32)
    _kernel[(batch * heads, triton.cdiv(queries, 32))](
        o, q, k, v, bits, tiles, *strides, heads, queries, keys, dim**-0.5, dim,
        max(16, triton.next_power_of_2(dim)), mask is not None, 32,
    )  # fmt: skip
    return o


def _both(q, k, v, mask=None):
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    scores = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
    return attention(q, k, v, mask), scores.softmax(-1) @ v.double()


def demonstrate():
    q, k, v = (torch.randn(2, 2, 80, 32) for _ in range(3))
    return _both(q, k, v, torch.arange(80) < torch.tensor([40, 80])[:, None, None, None])


def ordinary(dtype):
    q, k, v = (torch.randn(2, 2, 70, 64).to(dtype) for _ in range(3))
    yield "plain", _both(q, k, v)
    yield "causal", _both(q, k, v, torch.ones(70, 70, dtype=torch.bool).tril())
    yield "random", _both(q, k, v, (torch.rand(2, 2, 70, 70) < 0.5).index_fill(-1, torch.tensor([0]), True))
    yield "padded", _both(q, k, v, torch.arange(70) < torch.tensor([70, 40])[:, None, None, None])
