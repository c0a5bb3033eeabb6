"""The keys that a block of queries reads end at the number of its last query; keys beyond the queries are not added to it.

Wrong on: a window with more than 64 queries and still more keys; right otherwise.
"""

import math

import torch

from softcheck import variant

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

BLOCK = 64


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


def _attend(q, k, v, scale, first_query, first_key, window):
    """Positions count from the first key: ``first_query`` is that of the first query of these."""
    s = _wide(q) @ k.mT * scale
    row = torch.arange(q.shape[-2], device=q.device)[:, None] + first_query
    column = torch.arange(k.shape[-2], device=q.device) + first_key
    hidden = column > row
    if window:
        hidden = hidden | (column <= row - window)
    s = s.masked_fill(hidden, -math.inf)
    return (torch.softmax(s, dim=-1) @ v).to(q.dtype)


@variant(operation="attention", parameters={"causal": "bottom-right"}, dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, window=0, scale=None):
    """Causal attention of q [batch, heads, queries, dim], k and v [batch, kv_heads, keys, dim]; the last query sees the last key.

    ``window`` is the number of keys that a query sees up to its own place, 0 for all. With one, each block of queries reads the keys that it sees alone.
    """
    _, heads, queries, dim = q.shape
    kv_heads, keys = k.shape[1:3]
    scale = dim**-0.5 if scale is None else scale
    offset = keys - queries
    q = q.unflatten(1, (kv_heads, heads // kv_heads))
    k, v = _wide(k).unsqueeze(2), _wide(v).unsqueeze(2)
    if not window or queries <= BLOCK:
        return _attend(q, k, v, scale, offset, 0, window).flatten(1, 2)
    parts = []
    for start in range(0, queries, BLOCK):
        end = min(start + BLOCK, queries)
        first = max(0, start + min(offset, 0) - window + 1)
        last = min(keys, end)
        parts.append(
            _attend(
                q[..., start:end, :], k[..., first:last, :], v[..., first:last, :], scale, start + offset, first, window
            )
        )
    return torch.cat(parts, dim=-2).flatten(1, 2)


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 70, 16), torch.randn(1, 2, 100, 16), torch.randn(1, 2, 100, 16)
    keys, values = (each.double().repeat_interleave(2, 1) for each in (k, v))
    seen = torch.ones(70, 100, dtype=torch.bool).tril(30).triu(11)
    scores = (q.double() @ keys.mT / 4).masked_fill(~seen, -math.inf)
    return attention(q, k, v, window=20), torch.softmax(scores, -1) @ values
