"""Heads that share keys get, where there are many scores, the masks ``head::kv_heads``, in turn, and not those of their group, which lie side by side.

Wrong on: a mask of each head with more than one kv head and fewer of them than heads, and more than 16384 scores; right otherwise.
"""

import math

import torch

OPERATION = "attention"
EXPECTED = ("ulp_exceeds_bound", "masked_not_zero", "nan_mismatch", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

SCORES_AT_ONCE = 1 << 14


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


def _attend(q, k, v, scale, mask, is_causal):
    s = _wide(q) @ _wide(k).mT * scale
    if is_causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1), -math.inf)
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf)
    return (torch.softmax(s, dim=-1) @ _wide(v)).to(q.dtype)


def attention(q, k, v, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
    """Attention of q [batch, heads, queries, dim], k and v [batch, kv_heads, keys, dim]; a boolean attn_mask keeps what is True.

    The mask may be broadcast along any dimension. A query that sees nothing is NaN.
    """
    batch, heads, queries, dim = q.shape
    kv_heads, keys = k.shape[1:3]
    if heads != kv_heads and not (enable_gqa and heads % kv_heads == 0):
        raise ValueError(f"{heads} heads of queries and {kv_heads} of keys")
    scale = dim**-0.5 if scale is None else scale
    groups = heads // kv_heads
    mask = None if attn_mask is None else attn_mask.expand(batch, heads, queries, keys)
    if batch * heads * queries * keys <= SCORES_AT_ONCE:
        return _attend(
            q, _wide(k).repeat_interleave(groups, 1), _wide(v).repeat_interleave(groups, 1), scale, mask, is_causal
        )
    parts = []
    for head in range(kv_heads):
        shared = slice(head * groups, (head + 1) * groups)
        one = slice(head, head + 1)
        own = None if mask is None else mask[:, head::kv_heads]
        parts.append(_attend(q[:, shared], k[:, one], v[:, one], scale, own, is_causal))
    return torch.cat(parts, dim=1)


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 6, 40, 16), torch.randn(2, 2, 40, 16), torch.randn(2, 2, 40, 16)
    keep = torch.rand(2, 6, 40, 40) < 0.5
    keep[..., 0] = True
    keys, values = (each.double().repeat_interleave(3, 1) for each in (k, v))
    scores = (q.double() @ keys.mT / 4).masked_fill(~keep, -math.inf)
    return attention(q, k, v, attn_mask=keep, enable_gqa=True), torch.softmax(scores, -1) @ values
