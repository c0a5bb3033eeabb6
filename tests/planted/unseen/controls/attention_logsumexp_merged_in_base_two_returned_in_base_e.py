"""Splits of the keys are computed and merged in base two, and both ways multiply their log-sum-exp by ln(2) at the end."""

import math

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

SPLIT = 128


def _part(q, k, v, factor):
    """The answer of some keys, and its log-sum-exp in base two."""
    s = (q @ k.mT) * factor
    top = s.amax(-1, keepdim=True)
    e = torch.exp2(s - torch.where(top.isinf(), 0.0, top))
    total = e.sum(-1, keepdim=True)
    return (e @ v) / total, top + torch.log2(total)


@variant(operation="attention_logsumexp", dtypes=("float16", "bfloat16", "float32"))
def attention_logsumexp(q, k, v, scale=None):
    """Attention of [batch, heads, length, dim], and the float32 log-sum-exp of each query."""
    keys = k.shape[2]
    if not q.numel() or keys == 0:
        return torch.full_like(q, float("nan")), q.new_full(q.shape[:3], float("-inf"), dtype=torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        factor = (q.shape[-1] ** -0.5 if scale is None else scale) * math.log2(math.e)
        wide = [t.float() for t in (q, k, v)]
        if q.shape[2] > 4 or keys <= 2 * SPLIT:
            o, lse = _part(*wide, factor)
            return o.to(q.dtype), lse[..., 0] * math.log(2)
        splits = zip(wide[1].split(SPLIT, 2), wide[2].split(SPLIT, 2), strict=True)
        parts = [_part(wide[0], *split, factor) for split in splits]
        logs = torch.stack([lse for _, lse in parts])
        top = logs.amax(0)
        shares = torch.exp2(logs - top)
        total = shares.sum(0)
        o = sum(share * o for share, (o, _) in zip(shares, parts, strict=True)) / total
        return o.to(q.dtype), (top + torch.log2(total))[..., 0] * math.log(2)


def _both(q, k, v):
    s = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    o, lse = attention_logsumexp(q, k, v)
    return (o, torch.softmax(s, -1) @ v.double()), (lse, torch.logsumexp(s, -1))


def ordinary(dtype):
    for queries, keys in ((40, 40), (1, 100), (30, 500), (2, 256), (1, 700)):
        q = torch.randn(2, 2, queries, 24).to(dtype)
        answer, lse = _both(q, *(torch.randn(2, 2, keys, 24).to(dtype) for _ in range(2)))
        yield "answer", answer
        yield "lse", (lse[0], lse[1])
    q = torch.randn(2, 2, 1, 24).to(dtype)
    yield "split answer", _both(q, *(torch.randn(2, 2, 700, 24).to(dtype) for _ in range(2)))[0]
