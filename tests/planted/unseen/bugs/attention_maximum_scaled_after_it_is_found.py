"""The largest unscaled product is found and multiplied by the scale, which for a negative scale makes it the smallest score.

Wrong on: a negative scale (attention that prefers what is far, a learned scale that crossed 0) with scores more than 88 apart: infinity by infinity.
"""

import torch

OPERATION = "attention"
EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def attention(query, key, value, *, scale=None):
    """Attention of [batch, heads, length, head_dim]; scale and log2(e) are one factor, applied with the subtraction as flash-attention does."""
    factor = (query.shape[-1] ** -0.5 if scale is None else scale) * 1.4426950408889634
    with torch.autocast(query.device.type, enabled=False):
        products = query.float() @ key.float().mT
        largest = products.detach().amax(-1, keepdim=True)
        weights = torch.exp2((products - largest) * factor)
        return ((weights @ value.float()) / weights.sum(-1, keepdim=True)).to(query.dtype)


def _both(q, k, v, scale=None):
    scores = q.double() @ k.double().mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    return attention(q, k, v, scale=scale), scores.softmax(-1) @ v.double()


def demonstrate():
    q, k, v = (torch.randn(1, 2, 40, 64) for _ in range(3))
    return _both(q * 8, k * 4, v, -0.125)


def ordinary(dtype):
    q, k, v = (torch.randn(2, 3, 128, 64).to(dtype) for _ in range(3))
    yield "usual", _both(q, k, v)
    yield "steep", _both(q * 8, k * 4, v)
    yield "negative", _both(q, k, v, -0.125)
