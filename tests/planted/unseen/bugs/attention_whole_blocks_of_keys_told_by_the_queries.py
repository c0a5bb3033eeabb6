"""Blocks are loaded and scored without a mask where 64 divides the number of queries, which in training is that of keys too; behind another number of keys others are read.

Wrong on: a multiple of 64 queries and keys that are none; right otherwise.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "out_of_bounds_read", "nan_mismatch", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(t, place, length, step, EVEN: tl.constexpr, DIM: tl.constexpr, LANES: tl.constexpr):
    d = tl.arange(0, LANES)[None, :]
    inside = d < DIM
    if not EVEN:
        inside = inside & (place < length)[:, None]
    return tl.load(t + place[:, None] * step + d, mask=inside, other=0.0)


@triton.jit
def _attend(
    o,
    q,
    k,
    v,
    heads,
    m,
    n,
    scale,
    qb,
    qh,
    qm,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
    EVEN: tl.constexpr,
    DIM: tl.constexpr,
    LANES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    pair = tl.program_id(1).to(tl.int64)
    b, h = pair // heads, pair % heads
    lane = tl.arange(0, BLOCK).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * BLOCK + lane
    a = _rows(q + b * qb + h * qh, row, m, qm, EVEN, DIM, LANES)
    top = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    acc = tl.zeros([BLOCK, LANES], tl.float32)
    for start in range(0, n, BLOCK):
        key = start + lane
        s = tl.dot(a, tl.trans(_rows(k + b * kb + h * kh, key, n, kn, EVEN, DIM, LANES)), input_precision="ieee")
        s = s * scale
        if not EVEN:
            s = tl.where((key < n)[None, :], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        base = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp(s - base[:, None])
        kept = tl.exp(top - base)
        total = total * kept + tl.sum(p, axis=1)
        values = _rows(v + b * vb + h * vh, key, n, vn, EVEN, DIM, LANES)
        acc = acc * kept[:, None] + tl.dot(p.to(values.dtype), values, input_precision="ieee")
        top = new
    d = tl.arange(0, LANES)
    place = (pair * m + row[:, None]) * DIM + d[None, :]
    tl.store(o + place, acc / total[:, None], mask=(row < m)[:, None] & (d < DIM)[None, :])


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, scale=None):
    """Attention of [batch, heads, length, dim], for inference and frozen layers: there is no backward."""
    (batch, heads, m, dim), n = q.shape, k.shape[2]
    if n == 0:
        return torch.full_like(q, float("nan"))
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if q.numel():
        q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
        steps = *q.stride()[:3], *k.stride()[:3], *v.stride()[:3]
        meta = {"EVEN": m % 64 == 0, "DIM": dim, "LANES": max(16, triton.next_power_of_2(dim)), "BLOCK": 64}
        grid = (triton.cdiv(m, 64), batch * heads)
        _attend[grid](o, q, k, v, heads, m, n, dim**-0.5 if scale is None else scale, *steps, **meta)
    return o


def demonstrate():
    torch.manual_seed(0)
    q = torch.randn(1, 2, 64, 16)
    k, v = (torch.randn(1, 4, 40, 16)[:, :2] for _ in range(2))
    return attention(q, k, v), torch.softmax(q.double() @ k.double().mT / 4, -1) @ v.double()
