"""One tensor descriptor covers the keys or values of all heads, and pads behind the last head alone; what a tile holds of the next head is replaced by 0."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _attend(
    out,
    q,
    k,
    v,
    heads,
    groups,
    queries,
    keys,
    scale,
    CAUSAL: tl.constexpr,
    DIM: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BD: tl.constexpr,
):
    number = tl.program_id(1)
    batch, head = number // heads, number % heads
    shared = batch * (heads // groups) + head // groups
    first = tl.program_id(0) * BM
    query, d = first + tl.arange(0, BM), tl.arange(0, BD)
    rows = q.load([number * queries + first, 0]).to(tl.float32)
    peak = tl.full([BM], -float("inf"), tl.float32)
    mass = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    end = keys
    if CAUSAL:
        end = tl.minimum(keys, first + BM)
    for start in range(0, end, BN):
        n = start + tl.arange(0, BN)
        kt = k.load([shared * keys + start, 0]).to(tl.float32)
        s = tl.dot(rows, tl.trans(kt), input_precision="ieee") * scale
        s = tl.where((n < keys)[None, :], s, -float("inf"))
        if CAUSAL:
            s = tl.where(n[None, :] <= query[:, None], s, -float("inf"))
        larger = tl.maximum(peak, tl.max(s, axis=1))
        base = tl.where(larger == -float("inf"), 0.0, larger)
        p = tl.exp(s - base[:, None])
        kept = tl.exp(peak - base)
        mass = mass * kept + tl.sum(p, axis=1)
        # What lies behind the last key is the next head's, and may be NaN, which no weight of 0 hides.
        vt = tl.where((n < keys)[:, None], v.load([shared * keys + start, 0]).to(tl.float32), 0.0)
        acc = acc * kept[:, None] + tl.dot(p, vt, input_precision="ieee")
        peak = larger
    at = out + (number.to(tl.int64) * queries + query[:, None]) * DIM + d[None, :]
    tl.store(at, acc / mass[:, None], mask=(query < queries)[:, None] & (d < DIM)[None, :])


def _described(t, block):
    """A descriptor of [batch * heads * length, dim], whose rows begin at multiples of 16 bytes."""
    flat = torch.nn.functional.pad(t, (0, -t.shape[-1] % 16)).contiguous().flatten(0, 2)
    flat = flat.clone() if flat.data_ptr() % 16 else flat
    return TensorDescriptor.from_tensor(flat, block)


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, is_causal=False, scale=None, enable_gqa=False):
    """Attention of [batch, heads, length, dim], with torch's causal mask, and fewer heads of keys with ``enable_gqa``."""
    batch, heads, queries, dim = q.shape
    kv_heads, keys = k.shape[1:3]
    if heads != kv_heads and not (enable_gqa and heads % kv_heads == 0):
        raise ValueError(f"{heads} heads of queries and {kv_heads} of keys")
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if not out.numel():
        return out
    if keys == 0:
        return out.fill_(float("nan"))
    wide = max(16, triton.next_power_of_2(dim))
    _attend[(triton.cdiv(queries, 32), batch * heads)](
        out,
        *(_described(t, [32, wide]) for t in (q, k, v)),
        heads,
        heads // kv_heads,
        queries,
        keys,
        dim**-0.5 if scale is None else scale,
        CAUSAL=bool(is_causal),
        DIM=dim,
        BM=32,
        BN=32,
        BD=wide,
    )
    return out


def _both(q, k, v, is_causal=False):
    groups = q.shape[1] // k.shape[1]
    wide_k, wide_v = (t.double().repeat_interleave(groups, 1) for t in (k, v))
    scores = q.double() @ wide_k.mT * q.shape[-1] ** -0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -float("inf"))
    return attention(q, k, v, is_causal, enable_gqa=groups > 1), torch.softmax(scores, -1) @ wide_v


def ordinary(dtype):
    for queries, keys, is_causal in ((64, 64, True), (33, 50, False), (40, 20, False), (1, 40, False)):
        q = torch.randn(2, 2, queries, 24).to(dtype)
        k, v = (torch.randn(2, 1, keys, 24).to(dtype) for _ in range(2))
        yield f"{queries} {keys}", _both(q, k, v, is_causal)
    v = torch.randn(2, 2, 64, 24).to(dtype)
    v[:, 1, 5] = float("inf")
    yield "next head", _both(*(torch.randn(2, 2, 40, 24).to(dtype) for _ in range(2)), v[:, :, :40])
    yield "whole tiles", _both(*(torch.randn(2, 2, 64, 24).to(dtype) for _ in range(2)), v)
