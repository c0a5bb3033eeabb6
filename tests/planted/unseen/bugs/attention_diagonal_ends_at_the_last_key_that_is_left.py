"""Keys behind the last one that the mask shows to any query are cut off before the scores; the causal diagonal then ends at the last key that is left.

Wrong on: a boolean mask that hides the last key from all queries of all batches, with queries that are not all blind; right otherwise.
"""

import math

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


@variant(operation="attention", parameters={"causal": "bottom-right"}, dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, attn_mask=None, scale=None):
    """Causal attention of [batch, heads, length, dim]: the last query sees the last key.

    ``attn_mask`` is True where a query may see a key, or numbers that are added to the scores; it is broadcast over batches, heads and queries.
    A batch that is padded far beyond its longest sequence costs no more than one that is not. Queries that see no key have NaN.
    """
    if k.shape[2] == 0:
        return q.new_full((*q.shape[:-1], v.shape[-1]), math.nan)
    if attn_mask is not None and attn_mask.dtype == torch.bool and attn_mask.shape[-1] == k.shape[2]:
        shown = attn_mask.reshape(-1, k.shape[2]).any(dim=0).nonzero()
        end = int(shown[-1]) + 1 if len(shown) else 1
        k, v, attn_mask = k[:, :, :end], v[:, :, :end], attn_mask[..., :end]
    queries, keys = q.shape[2], k.shape[2]
    scores = _wide(q) @ _wide(k).mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        seen = seen & attn_mask
    elif attn_mask is not None:
        scores = scores + attn_mask
    blind = ~seen.any(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(~(seen | blind), -math.inf), dim=-1)
    return (weights @ _wide(v)).masked_fill(blind, math.nan).to(q.dtype)


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 2, 6, 16), torch.randn(1, 2, 20, 16), torch.randn(1, 2, 20, 16)
    mask = torch.ones(1, 1, 1, 20, dtype=torch.bool)
    mask[..., 17:] = False
    seen = torch.ones(6, 20, dtype=torch.bool).tril(14) & mask
    scores = (q.double() @ k.double().mT / 4).masked_fill(~seen, -math.inf)
    return attention(q, k, v, mask), torch.softmax(scores, -1) @ v.double()
