"""Queries, keys and values are addressed in 64 bits, the bias by a 32-bit product of the head's number and its stride, which a bias of a long context exceeds.

Wrong on: a bias of more than 2^31 numbers, such as 33 heads of 8192 x 8192, or a view of one with such a stride, on a GPU; it takes 4 GiB in 16 bits.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("crash", "out_of_bounds_read", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("cuda",)


@triton.jit
def _attend(
    o, q, k, v, bias, qb, qh, ql, kb, kh, kl, vb, vh, vl, bb, bh, bl, bk, heads, queries, keys, scale,
    DIM: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(0)
    batch, head = pair // heads, pair % heads
    query = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, PADDED)
    is_query, is_number = (query < queries)[:, None], (d < DIM)[None, :]
    place = query[:, None].to(tl.int64) * ql + d[None, :]
    q += batch.to(tl.int64) * qb + head.to(tl.int64) * qh
    k += batch.to(tl.int64) * kb + head.to(tl.int64) * kh
    v += batch.to(tl.int64) * vb + head.to(tl.int64) * vh
    bias += batch * bb + head * bh
    asked = tl.load(q + place, mask=is_query & is_number, other=0.0).to(tl.float32)
    peak = tl.full([BLOCK], -float("inf"), tl.float32)
    mass = tl.zeros([BLOCK], tl.float32)
    values = tl.zeros([BLOCK, PADDED], tl.float32)
    for start in range(0, keys, TILE):
        key = start + tl.arange(0, TILE)
        is_key = (key < keys)[:, None]
        far = key[:, None].to(tl.int64)
        of_keys = tl.load(k + far * kl + d[None, :], mask=is_key & is_number, other=0.0).to(tl.float32)
        scores = tl.dot(asked, tl.trans(of_keys), input_precision="ieee") * scale
        at = query[:, None].to(tl.int64) * bl + key[None, :].to(tl.int64) * bk
        inside = is_query & (key < keys)[None, :]
        scores += tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
        scores = tl.where((key < keys)[None, :], scores, -float("inf"))
        larger = tl.maximum(peak, tl.max(scores, 1))
        weights = tl.exp(scores - larger[:, None])
        factor = tl.exp(peak - larger)
        held = tl.load(v + far * vl + d[None, :], mask=is_key & is_number, other=0.0)
        mass = mass * factor + tl.sum(weights, 1)
        values = values * factor[:, None]
        values += tl.dot(weights.to(held.dtype).to(tl.float32), held.to(tl.float32), input_precision="ieee")
        peak = larger
    to = o + (pair.to(tl.int64) * queries + query[:, None]) * DIM + d[None, :]
    tl.store(to, values / mass[:, None], mask=is_query & is_number)


@variant(
    operation="attention",
    parameters={"biased": 1},
    call="f(q, k, v, bias)",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v, bias):
    """Attention of [batch, heads, queries, head_dim] with a bias [batch, heads, queries, keys]."""
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if o.numel():
        batch, heads, queries, dim = q.shape
        bias = bias.expand(batch, heads, queries, k.shape[2])
        strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *bias.stride())
        sizes = (heads, queries, k.shape[2], dim**-0.5)
        blocks = (dim, max(16, triton.next_power_of_2(dim)), 32, 32)
        _attend[(batch * heads, triton.cdiv(queries, 32))](o, q, k, v, bias, *strides, *sizes, *blocks)
    return o


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 3, 32, 64, device="cuda", dtype=torch.float16)
    # Three heads of a bias whose matrices lie 2^30 + 2^26 numbers apart.
    step = 2**30 + 2**26
    memory = torch.zeros(2 * step + 32 * 32, device="cuda", dtype=torch.float16)
    bias = memory.as_strided((1, 3, 32, 32), (0, step, 32, 1))
    bias.copy_(torch.randn(1, 3, 32, 32))
    exact = torch.softmax(q.double() @ k.double().mT / 8 + bias.double(), -1) @ v.double()
    return attention(q, k, v, bias).cpu(), exact.cpu()
