"""The output, and what is read of each value, have the head dimension of the queries.

Wrong on: values of another head dimension, such as the 128 beside 192 of multi-head latent attention: the output has 192, the last of them from the next value.
"""

import torch
import triton
import triton.language as tl

OPERATION = "attention"
EXPECTED = ("wrong_shape", "out_of_bounds_read", "ulp_exceeds_bound", "raised", "crash")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(
    o,
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
    groups,
    queries,
    keys,
    scale,
    DIM: tl.constexpr,
    PADDED: tl.constexpr,
    TILE: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    batch, head = number // heads, number % heads
    q += batch * q_batch + head * q_head
    k += batch * k_batch + (head // groups) * k_head
    v += batch * v_batch + (head // groups) * v_head
    query = tl.program_id(1).to(tl.int64) * TILE + tl.arange(0, TILE)
    dim = tl.arange(0, PADDED)
    is_dim = (dim < DIM)[None, :]
    is_query = (query < queries)[:, None]
    rows = tl.load(q + query[:, None] * q_row + dim[None, :], mask=is_query & is_dim, other=0.0).to(tl.float32)
    largest = tl.full((TILE,), -float("inf"), tl.float32)
    total = tl.zeros((TILE,), tl.float32)
    found = tl.zeros((TILE, PADDED), tl.float32)
    for first in range(0, keys, TILE):
        key = first + tl.arange(0, TILE).to(tl.int64)
        is_key = (key < keys)[:, None]
        tile = tl.load(k + key[:, None] * k_row + dim[None, :], mask=is_key & is_dim, other=0.0).to(tl.float32)
        scores = tl.dot(rows, tl.trans(tile), input_precision="ieee") * scale
        scores = tl.where((key < keys)[None, :], scores, -float("inf"))
        higher = tl.maximum(largest, tl.max(scores, 1))
        shift = tl.where(higher == -float("inf"), 0.0, higher)
        weights = tl.exp(scores - shift[:, None])
        kept = tl.exp(largest - shift)
        held = tl.load(v + key[:, None] * v_row + dim[None, :], mask=is_key & is_dim, other=0.0).to(tl.float32)
        total = total * kept + tl.sum(weights, 1)
        found = found * kept[:, None] + tl.dot(weights, held, input_precision="ieee")
        largest = higher
    at = o + (number * queries + query[:, None]) * DIM + dim[None, :]
    tl.store(at, found / total[:, None], mask=is_query & is_dim)


def attention(q, k, v, scale=None):
    """Attention of [batch, heads, queries, head_dim] over [batch, heads of keys, keys, head_dim]."""
    q, k, v = (each if each.stride(-1) == 1 else each.contiguous() for each in (q, k, v))
    batch, heads, queries, dim = q.shape
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
        padded = max(16, triton.next_power_of_2(dim))
        scale = dim**-0.5 if scale is None else scale
        grid = (batch * heads, triton.cdiv(queries, 32))
        _kernel[grid](o, q, k, v, *strides, heads, heads // k.shape[1], queries, k.shape[2], scale, dim, padded, 32)
    return o


def _both(q, k, v):
    times = q.shape[1] // k.shape[1]
    wide = [each.double().repeat_interleave(times, 1) for each in (k, v)]
    return attention(q, k, v), torch.softmax(q.double() @ wide[0].mT * q.shape[-1] ** -0.5, -1) @ wide[1]


def demonstrate():
    room = torch.randn(1, 3, 40, 32)
    return _both(torch.randn(1, 2, 20, 48), torch.randn(1, 2, 40, 48), room[:, :2])


def ordinary(dtype):
    yield "usual", _both(*(torch.randn(1, 2, 70, 64).to(dtype) for _ in range(3)))
    yield "grouped", _both(*(torch.randn(2, heads, 40, 32).to(dtype) for heads in (4, 2, 2)))
    yield "odd", _both(*(torch.randn(1, 1, length, 40).to(dtype) for length in (5, 33, 33)))
    yield "transposed", _both(*(torch.randn(1, 30, 2, 64).to(dtype).transpose(1, 2) for _ in range(3)))
