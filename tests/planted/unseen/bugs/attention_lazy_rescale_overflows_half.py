"""Rescaling waits until a maximum rises by more than 12; weights up to exp(12) are given to the second product in float16, which ends at exp(11.09).

Wrong on: float16 queries with a score 11.1 to 12 above those of the first tile: infinite. bfloat16 holds such weights, and scores of randn don't rise so far.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("inf_mismatch", "nan_mismatch", "out_of_range", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _attend(
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
    group,
    queries,
    keys,
    scale,
    DIM: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
):
    of_batch = tl.program_id(1).to(tl.int64)
    batch, head = of_batch // heads, of_batch % heads
    q += batch * q_batch + head * q_head
    k += batch * k_batch + (head // group) * k_head
    v += batch * v_batch + (head // group) * v_head
    top = tl.program_id(0) * ROWS
    row = (top + tl.arange(0, ROWS)).to(tl.int64)
    d = tl.arange(0, WIDE)
    lane = tl.arange(0, TILE).to(tl.int64)
    asked = tl.load(
        q + row[:, None] * q_row + d[None, :], mask=(row < queries)[:, None] & (d < DIM)[None, :], other=0.0
    )
    peak = tl.full([ROWS], -float("inf"), tl.float32)
    mass = tl.zeros([ROWS], tl.float32)
    held = tl.zeros([ROWS, WIDE], tl.float32)
    for at in range(0, keys, TILE):
        key = at + lane
        inside = (key < keys)[:, None] & (d < DIM)[None, :]
        offered = tl.load(k + key[:, None] * k_row + d[None, :], mask=inside, other=0.0)
        score = tl.dot(asked.to(tl.float32), tl.trans(offered.to(tl.float32)), input_precision="ieee") * scale
        score = tl.where((key < keys)[None, :], score, -float("inf"))
        larger = tl.maximum(peak, tl.max(score, 1))
        # A maximum that rises a little is not worth a rescaling of all values.
        larger = tl.where(larger - peak > 12.0, larger, peak)
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        weight = tl.exp(score - shift[:, None])
        kept = tl.exp(peak - shift)
        values = tl.load(v + key[:, None] * v_row + d[None, :], mask=inside, other=0.0)
        mass = mass * kept + tl.sum(weight, 1)
        held = held * kept[:, None] + tl.dot(
            weight.to(values.dtype).to(tl.float32), values.to(tl.float32), input_precision="ieee"
        )
        peak = larger
    at = o + (of_batch * queries + row[:, None]) * DIM + d[None, :]
    tl.store(at, held / mass[:, None], mask=(row < queries)[:, None] & (d < DIM)[None, :])


@variant(operation="attention", parameters={}, call="f(q, k, v)", dtypes=("float16", "bfloat16", "float32"))
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim] over [batch, heads of keys, keys, head_dim]."""
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        batch, heads, queries, dim = q.shape
        keys, group = k.shape[2], heads // k.shape[1]
        wide = max(16, triton.next_power_of_2(dim))
        steps = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
        grid = (triton.cdiv(queries, 32), batch * heads)
        _attend[grid](o, q, k, v, *steps, heads, group, queries, keys, dim**-0.5, dim, wide, 32, 32)
    return o


def _exact(q, k, v, seen=None):
    group = q.shape[1] // k.shape[1]
    k, v = (each.double().repeat_interleave(group, 1) for each in (k, v))
    scores = q.double() @ k.mT / q.shape[-1] ** 0.5
    if seen is not None:
        scores = scores.masked_fill(~seen, -float("inf"))
    return torch.softmax(scores, -1) @ v


def demonstrate():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, rows, 64).half() for rows in (20, 64, 64))
    k[0, 0, :32] = 0.0
    k[0, 0, 50] = (11.5 * 8 / q[0, 0, 7].float().square().sum() * q[0, 0, 7].float()).half()
    return attention(q, k, v), _exact(q, k, v)


def ordinary(dtype):
    q, k, v = (torch.randn(2, 2, 33, 64, dtype=torch.float64).to(dtype) for _ in range(3))
    return attention(q, k, v), _exact(q, k, v)
