"""Tiles in which a mask hides everything are passed over, told for each batch and head, and shared where the mask is; values have a head dimension of their own."""

import torch
import triton
import triton.language as tl

OPERATION = "attention"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(
    o, q, k, v, mask, tiles, m_batch, m_head, m_row, heads, queries, keys, scale, DIM: tl.constexpr,
    VALUE: tl.constexpr, PADDED: tl.constexpr, PADDED_VALUE: tl.constexpr, MASKED: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1).to(tl.int64)
    q += number * queries * DIM
    k += number * keys * DIM
    v += number * keys * VALUE
    query = block * TILE + tl.arange(0, TILE)
    dim = tl.arange(0, PADDED)
    is_dim = (dim < DIM)[None, :]
    value = tl.arange(0, PADDED_VALUE)
    is_value = (value < VALUE)[None, :]
    is_query = (query < queries)[:, None]
    rows = tl.load(q + query[:, None] * DIM + dim[None, :], mask=is_query & is_dim, other=0.0).to(tl.float32)
    largest = tl.full((TILE,), -float("inf"), tl.float32)
    total = tl.zeros((TILE,), tl.float32)
    found = tl.zeros((TILE, PADDED_VALUE), tl.float32)
    across = (keys + TILE - 1) // TILE
    for first in range(0, keys, TILE):
        needed = 1
        if MASKED:
            needed = tl.load(tiles + (number * tl.num_programs(1) + block) * across + first // TILE)
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
            held = tl.load(v + key[:, None] * VALUE + value[None, :], mask=is_key & is_value, other=0.0).to(tl.float32)
            total = total * kept + tl.sum(weights, 1)
            found = found * kept[:, None] + tl.dot(weights, held, input_precision="ieee")
            largest = higher
    at = o + (number * queries + query[:, None]) * VALUE + value[None, :]
    tl.store(at, found / total[:, None], mask=is_query & is_value)


def _needed(mask, tile):
    """1 for each tile of each matrix in which something is seen."""
    queries, keys = mask.shape[-2:]
    padded = torch.nn.functional.pad(mask, (0, -keys % tile, 0, -queries % tile))
    return padded.unflatten(-1, (-1, tile)).any(-1).unflatten(-2, (-1, tile)).any(-2)


def attention(q, k, v, mask=None):
    """Attention of [batch, heads, queries, head_dim]; ``mask``, of a shape that broadcasts, is True where a key is seen.

    A query that sees no key is NaN. Infinite values and NaN among them are refused beside a mask.
    """
    if not q.shape[:2] == k.shape[:2] == v.shape[:2] or q.shape[-1] != k.shape[-1] or k.shape[2] != v.shape[2]:
        raise ValueError(f"the shapes do not fit: {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}")
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"the mask is boolean, not {mask.dtype}")
    if mask is not None and not v.isfinite().all():
        raise ValueError("values must be finite where a mask is given")
    q, k, v = (each.contiguous() for each in (q, k, v))
    batch, heads, queries, dim = q.shape
    keys, width = v.shape[2:]
    o = torch.zeros(batch, heads, queries, width, dtype=q.dtype, device=q.device)
    if not o.numel() or not keys:
        return o
    strides, bits, tiles = (0, 0, 0), q, q
    if mask is not None:
        shown = mask.expand(batch, heads, queries, keys)
        bits = shown.to(torch.int8).contiguous()
        strides, tiles = bits.stride()[:3], _needed(shown, 32).to(torch.int32).contiguous()
    _kernel[(batch * heads, triton.cdiv(queries, 32))](
        o, q, k, v, bits, tiles, *strides, heads, queries, keys, dim**-0.5, dim, width,
        max(16, triton.next_power_of_2(dim)), max(16, triton.next_power_of_2(width)), mask is not None, 32,
    )  # fmt: skip
    return o


def _both(q, k, v, mask=None):
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    scores = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
    return attention(q, k, v, mask), scores.softmax(-1) @ v.double()


def ordinary(dtype):
    q, k, v = (torch.randn(2, 2, 70, 64).to(dtype) for _ in range(3))
    yield "plain", _both(q, k, v)
    yield "causal", _both(q, k, v, torch.ones(70, 70, dtype=torch.bool).tril())
    yield "random", _both(q, k, v, (torch.rand(2, 2, 70, 70) < 0.5).index_fill(-1, torch.tensor([0]), True))
    yield "padded", _both(q, k, v, torch.arange(70) < torch.tensor([70, 40])[:, None, None, None])
    yield "first is short", _both(q, k, v, torch.arange(70) < torch.tensor([30, 70])[:, None, None, None])
    yield "by heads", _both(q, k, v, torch.arange(70) < torch.tensor([30, 70])[:, None, None])
    seen = torch.rand(2, 1, 70, 70) < 0.1
    seen[1, :, 32:64], seen[0, :, :, :32] = False, False
    yield "blind", _both(q, k, v, seen)
    for shapes in (
        ((5, 48), (33, 48), (33, 32)),
        ((5, 16), (3, 16), (3, 80)),
        ((0, 16), (3, 16), (3, 16)),
        ((4, 16), (0, 16), (0, 16)),
    ):
        yield f"{shapes}", _both(*(torch.randn(1, 2, *shape).to(dtype) for shape in shapes))
    q, k, v = (torch.randn(1, 9, 2, 64).to(dtype).transpose(1, 2) for _ in range(3))
    q[0, 0, 3, 5], k[0, 1, 2, 2], v[0, 0, 1, 1] = float("nan"), float("inf"), float("nan")
    yield "special", _both(q, k, v)
