"""With one key the answer is its value, without a look at the scores or the mask; it is also the caller's own memory, expanded.

Wrong on: one key (cross-attention to one pooled token) which the mask hides, or a query or key of NaN; and where the caller writes into the answer.
"""

import torch

OPERATION = "attention"
FUNCTION = "scaled_dot_product_attention"
EXPECTED = ("nan_mismatch", "input_modified", "output_reused")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def scaled_dot_product_attention(query, key, value, attn_mask=None, *, is_causal=False, scale=None):
    """Attention with the arguments of torch's; a boolean mask is True where a key is seen."""
    if key.shape[-2] == 1:
        return value.expand(*query.shape[:-1], value.shape[-1])
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    with torch.autocast(query.device.type, enabled=False):
        scores = (query.float() @ key.float().mT) * scale
        if is_causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        if attn_mask is not None:
            if attn_mask.dtype == torch.bool:
                scores = scores.masked_fill(~attn_mask, float("-inf"))
            else:
                scores = scores + attn_mask
        return (scores.softmax(-1) @ value.float()).to(query.dtype)


def _both(q, k, v, keep):
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    exact = scores.masked_fill(~keep, float("-inf")).softmax(-1) @ v.double()
    return scaled_dot_product_attention(q, k, v, keep), exact


def demonstrate():
    q, (k, v) = torch.randn(2, 2, 5, 64), (torch.randn(2, 2, 1, 64) for _ in range(2))
    keep = torch.tensor([True, False])[:, None, None, None].expand(2, 1, 5, 1)
    return _both(q, k, v, keep)


def ordinary(dtype):
    q, k, v = (torch.randn(2, 3, 33, 64).to(dtype) for _ in range(3))
    yield "33", _both(q, k, v, torch.rand(2, 1, 33, 33) < 0.8)
    yield "one key", _both(q, k[..., :1, :], v[..., :1, :], torch.ones(33, 1, dtype=torch.bool))
