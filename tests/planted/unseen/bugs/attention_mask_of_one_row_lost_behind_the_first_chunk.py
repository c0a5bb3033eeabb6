"""Queries go in chunks, each with its rows of the mask; of a mask of one row for all queries the first chunk alone finds one.

Wrong on: a mask of [batch, 1, 1, keys], with more than 64 queries; right otherwise.
"""

import math

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "masked_not_zero", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

CHUNK = 64


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, attn_mask=None, scale=None):
    """Attention of [batch, heads, length, dim] and a boolean mask, broadcast as torch's, True for what is seen. 64 queries at a time."""
    queries, dim = q.shape[2:]
    scale = dim**-0.5 if scale is None else scale
    kt, values = _wide(k).mT, _wide(v)
    parts = []
    for first in range(0, queries, CHUNK):
        last = min(first + CHUNK, queries)
        s = _wide(q[:, :, first:last]) @ kt * scale
        if attn_mask is not None and first < attn_mask.shape[-2]:
            rows = attn_mask[..., first:last, :]
            s = s.masked_fill(~rows, -math.inf)
        parts.append((torch.softmax(s, dim=-1) @ values).to(q.dtype))
    return torch.cat(parts, dim=2) if parts else torch.empty_like(q)


def demonstrate():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 70, 16) for _ in range(3))
    mask = torch.rand(2, 1, 1, 70) > 0.3
    scores = (q.double() @ k.double().mT / 4).masked_fill(~mask, -math.inf)
    return attention(q, k, v, mask), torch.softmax(scores, -1) @ v.double()
