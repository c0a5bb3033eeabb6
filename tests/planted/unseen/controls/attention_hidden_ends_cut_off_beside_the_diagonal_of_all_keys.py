"""Right: keys that the mask hides from all queries are cut off at both ends, and the causal diagonal is counted from all keys, less those cut off before it."""

import math

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


@variant(operation="attention", parameters={"causal": "bottom-right"}, dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, attn_mask=None, scale=None):
    """Causal attention of [batch, heads, length, dim]: the last query sees the last key.

    ``attn_mask`` is True where a query may see a key, or numbers that are added to the scores. Queries that see no key have NaN.
    """
    queries, keys = q.shape[2], k.shape[2]
    if keys == 0:
        return q.new_full((*q.shape[:-1], v.shape[-1]), math.nan)
    begin, end = 0, keys
    told = attn_mask is not None and attn_mask.dtype == torch.bool
    if told and attn_mask.shape[-1] == keys:
        shown = attn_mask.reshape(-1, keys).any(dim=0).nonzero()
        begin, end = (int(shown[0]), int(shown[-1]) + 1) if len(shown) else (0, 1)
        attn_mask = attn_mask[..., begin:end]
    k, v = _wide(k[:, :, begin:end]), _wide(v[:, :, begin:end])
    scores = _wide(q) @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(keys - queries - begin)
    if told:
        seen = seen & attn_mask
    elif attn_mask is not None:
        scores = scores + attn_mask
    blind = ~seen.any(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(~(seen | blind), -math.inf), dim=-1)
    return (weights @ v).masked_fill(blind, math.nan).to(q.dtype)
