"""Masks are chosen by if and elif: causal or the given one.

Wrong on: ``is_causal=True`` together with a mask of padding, which the documentation allows: padded keys are seen. Each of the two alone is right.
"""

import torch

OPERATION = "attention"
FUNCTION = "scaled_dot_product_attention"
EXPECTED = ("ulp_exceeds_bound", "masked_not_zero", "nan_mismatch", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    """As torch's, but that ``attn_mask`` and ``is_causal`` may be given together: a key is seen where both let it be seen."""
    if dropout_p:
        raise NotImplementedError("dropout is not supported")
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    with torch.autocast(query.device.type, enabled=False):
        scores = torch.matmul(query.float(), key.float().mT) * scale
        if is_causal:
            future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(future, float("-inf"))
        elif attn_mask is not None:
            if attn_mask.dtype == torch.bool:
                scores = scores.masked_fill(~attn_mask, float("-inf"))
            else:
                scores = scores + attn_mask
        return torch.matmul(torch.softmax(scores, -1), value.float()).to(query.dtype)


def _both(q, k, v, mask=None, causal=False):
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    return scaled_dot_product_attention(q, k, v, mask, is_causal=causal), scores.softmax(-1) @ v.double()


def demonstrate():
    q, k, v = (torch.randn(2, 2, 24, 32) for _ in range(3))
    seen = torch.ones(2, 1, 1, 24, dtype=torch.bool)
    seen[1, ..., 3:9] = False
    return _both(q, k, v, seen, causal=True)


def ordinary(dtype):
    q, k, v = (torch.randn(2, 3, 40, 64).to(dtype) for _ in range(3))
    seen = torch.arange(40) < torch.tensor([40, 25])[:, None, None, None]
    yield "plain", _both(q, k, v)
    yield "causal", _both(q, k, v, causal=True)
    yield "masked", _both(q, k, v, seen)
    yield "biased", _both(q, k, v, torch.randn(40, 40))
