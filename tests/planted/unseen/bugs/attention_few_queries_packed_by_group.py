"""Up to 16 queries are packed with the heads of their group into one product, group by group, and the causal place of a packed row is its number divided by the groups.

Wrong on: 2 to 16 queries behind a cache, as in speculative decoding: rows are [group, query], and the place is the remainder. One query, and more than 16, are right.
"""

import torch

from softcheck import variant

EXPECTED = ("masked_not_zero", "nan_mismatch", "out_of_range", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _weighted(q, k, v, place):
    """Of float32 operands whose rows of q see the keys up to ``place``."""
    scores = (q @ k.mT) * q.shape[-1] ** -0.5
    key = torch.arange(k.shape[-2], device=q.device)
    return torch.softmax(scores.masked_fill(key[None, :] > place[:, None], -float("inf")), -1) @ v


@variant(
    operation="attention",
    parameters={"causal": "bottom-right", "groups": 2},
    call="f(q, k, v)",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v):
    """Causal attention of [batch, heads, queries, head_dim] over [batch, heads of keys, keys, head_dim]."""
    batch, heads, queries, dim = q.shape
    of_keys, keys = k.shape[1], k.shape[2]
    groups = heads // max(1, of_keys)
    wide = [each.float() for each in (q, k, v)]
    with torch.autocast(q.device.type, enabled=False):
        if queries <= 16:
            packed = wide[0].reshape(batch, of_keys, groups * queries, dim)
            place = torch.arange(groups * queries, device=q.device) // max(1, groups) + (keys - queries)
            return _weighted(packed, *wide[1:], place).reshape(q.shape).to(q.dtype)
        place = torch.arange(queries, device=q.device) + (keys - queries)
        k, v = (each.repeat_interleave(groups, 1) for each in wide[1:])
        return _weighted(wide[0], k, v, place).to(q.dtype)


def _exact(q, k, v):
    queries, keys, groups = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    k, v = (each.double().repeat_interleave(groups, 1) for each in (k, v))
    seen = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    return torch.softmax((q.double() @ k.mT / q.shape[-1] ** 0.5).masked_fill(~seen, -float("inf")), -1) @ v


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 4, 16), torch.randn(1, 2, 12, 16), torch.randn(1, 2, 12, 16)
    return attention(q, k, v), _exact(q, k, v)


def ordinary(dtype):
    q, k, v = (torch.randn(2, heads, 33, 16, dtype=torch.float64).to(dtype) for heads in (4, 2, 2))
    one = attention(q[:, :, :1], k, v), _exact(q[:, :, :1], k, v)
    all_ = attention(q, k, v), _exact(q, k, v)
    return tuple(torch.cat(pair, 2) for pair in zip(one, all_, strict=True))
