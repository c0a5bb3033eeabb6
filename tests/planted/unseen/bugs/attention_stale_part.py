"""Keys are split among four programs whose results lie in a workspace that is kept between calls; a part without keys returns before it writes anything there.

Wrong on: 40 keys (two parts of 32) after 128 keys (four parts) with as many queries: the merge finds the earlier call's parts. The first call is right.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nondeterministic", "out_of_range", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_PARTS = 4
_WORKSPACES = {}


@triton.jit
def _part_kernel(
    values_of,
    maximum_of,
    total_of,
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
    DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    head, part = tl.program_id(0).to(tl.int64), tl.program_id(2)
    first = part * of_part
    if first >= keys:
        return
    query = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    batch, number = head // heads, head % heads
    q += batch * q_batch + number * q_head
    k += batch * k_batch + number * k_head
    v += batch * v_batch + number * v_head
    dim = tl.arange(0, BLOCK_DIM)
    lane = tl.arange(0, TILE)
    is_dim = (dim < DIM)[None, :]
    is_query = (query < queries)[:, None]
    rows = tl.load(q + query[:, None].to(tl.int64) * q_row + dim[None, :], mask=is_query & is_dim, other=0.0)
    maximum = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    values = tl.zeros((BLOCK, BLOCK_DIM), tl.float32)
    for start in range(first, tl.minimum(first + of_part, keys), TILE):
        key = start + lane
        is_key = key < keys
        place = key[:, None].to(tl.int64)
        tile = tl.load(k + place * k_row + dim[None, :], mask=is_key[:, None] & is_dim, other=0.0)
        scores = tl.dot(rows.to(tl.float32), tl.trans(tile.to(tl.float32)), input_precision="ieee") * scale
        scores = tl.where(is_query & is_key[None, :], scores, -float("inf"))
        largest = tl.maximum(maximum, tl.max(scores, axis=1))
        subtracted = tl.where(largest == -float("inf"), 0.0, largest)
        weights = tl.exp(scores - subtracted[:, None])
        rescaled = tl.exp(maximum - subtracted)
        held = tl.load(v + place * v_row + dim[None, :], mask=is_key[:, None] & is_dim, other=0.0)
        total = total * rescaled + tl.sum(weights, axis=1)
        values = values * rescaled[:, None] + tl.dot(
            weights.to(held.dtype).to(tl.float32), held.to(tl.float32), input_precision="ieee"
        )
        maximum = largest
    row = (part * tl.num_programs(0) + head) * queries + query
    tl.store(maximum_of + row, maximum, mask=query < queries)
    tl.store(total_of + row, total, mask=query < queries)
    tl.store(values_of + row[:, None] * DIM + dim[None, :], values, mask=is_query & is_dim)


def _workspace(rows, dim, device):
    found = _WORKSPACES.get((rows, dim, device))
    if found is None:
        maximum = torch.full((_PARTS, rows), -float("inf"), device=device)
        found = maximum, torch.zeros_like(maximum), torch.zeros(_PARTS, rows, dim, device=device)
        _WORKSPACES[rows, dim, device] = found
    return found


@variant(operation="attention", call="f(q, k, v)", dtypes=("float16", "bfloat16", "float32"))
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim] over [batch, heads, keys, head_dim]."""
    batch, heads, queries, dim = q.shape
    keys, rows = k.shape[2], batch * heads * queries
    if not q.numel():
        return torch.empty(q.shape, dtype=q.dtype, device=q.device)
    maximum, total, values = _workspace(rows, dim, q.device)
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    of_part = triton.cdiv(triton.cdiv(max(keys, 1), _PARTS), 32) * 32
    grid = (batch * heads, triton.cdiv(queries, 32), _PARTS)
    block_dim = max(16, triton.next_power_of_2(dim))
    _part_kernel[grid](
        values, maximum, total, q, k, v, *strides, heads, queries, keys, of_part, dim**-0.5, dim, block_dim, 32, 32
    )
    share = torch.exp(maximum - maximum.amax(0))
    merged = (values * share[..., None]).sum(0) / (total * share).sum(0)[:, None]
    return merged.view(q.shape).to(q.dtype)


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 1, 8, 64), torch.randn(1, 1, 128, 64), torch.randn(1, 1, 128, 64)
    attention(q, k, v)
    k, v = k[:, :, :40], v[:, :, :40]
    return attention(q, k, v), torch.softmax(q.double() @ k.double().mT * 0.125, -1) @ v.double()
