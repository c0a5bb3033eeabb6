"""Keys with large channels in common have their mean taken off, which changes no weight; the log-sum-exp that may be asked for has lost the product with it.

Wrong on: ``return_lse=True`` with keys of which a channel's mean is more than 1 (as in Qwen, whose keys have biases), so that parts merged by it are weighted wrongly.
"""

import torch

OPERATION = "attention"
EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def attention(q, k, v, *, is_causal=False, scale=None, return_lse=False):
    """Attention of [batch, heads, length, head_dim], and if asked the log-sum-exp of each query's scores in float32."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    keys = k.float()
    if k.shape[-2]:
        mean = keys.mean(-2, keepdim=True)
        if mean.abs().max() > 1:
            # As SageAttention: the common part of all keys costs digits, and no weight depends on it.
            keys = keys - mean
    with torch.autocast(q.device.type, enabled=False):
        scores = q.float() @ keys.mT * scale
        if is_causal:
            future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(future, float("-inf"))
        lse = torch.logsumexp(scores, -1)
        o = (torch.softmax(scores, -1) @ v.float()).to(q.dtype)
    return (o, lse) if return_lse else o


def _exact(q, k, v):
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    return scores.softmax(-1) @ v.double(), scores.logsumexp(-1)


def demonstrate():
    q, k, v = (torch.randn(1, 2, 30, 64) for _ in range(3))
    k[..., 5] += 12.0
    return attention(q, k, v, return_lse=True)[1], _exact(q, k, v)[1]


def ordinary(dtype):
    q, k, v = (torch.randn(2, 3, 40, 64).to(dtype) for _ in range(3))
    given, exact = attention(q, k, v, return_lse=True), _exact(q, k, v)
    yield "output", (given[0], exact[0])
    yield "log-sum-exp", (given[1], exact[1])
    k[..., 5] += 12.0
    yield "outlying channel", (attention(q, k, v), _exact(q, k, v)[0])
