"""More than 256 keys are attended in chunks of 256, whose outputs are merged by log-sum-exps that are kept in the input's dtype.

Wrong on: 320 keys in bfloat16 with scores of some 20 to 60 in both chunks; right up to 256 keys, in float32, and near enough for randn.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")

_CHUNK = 256


def _of_chunk(q, k, v):
    scores = (q.float() @ k.float().mT) * q.shape[-1] ** -0.5
    lse = torch.logsumexp(scores, dim=-1, keepdim=True)
    return torch.softmax(scores, dim=-1) @ v.float(), lse.to(q.dtype)


@variant(operation="attention", call="f(q, k, v)", dtypes=("float16", "bfloat16"))
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim] over [batch, heads, keys, head_dim]."""
    with torch.autocast(q.device.type, enabled=False):
        if k.shape[2] <= _CHUNK:
            return _of_chunk(q, k, v)[0].to(q.dtype)
        parts = [_of_chunk(q, *chunk) for chunk in zip(k.split(_CHUNK, 2), v.split(_CHUNK, 2), strict=True)]
        shares = torch.softmax(torch.stack([lse for _, lse in parts]).float(), dim=0)
        return sum(share * o for share, (o, _) in zip(shares, parts, strict=True)).to(q.dtype)


def demonstrate():
    torch.manual_seed(0)
    q, k, v = (
        torch.randn(1, 1, 16, 64).bfloat16() * 12,
        torch.randn(1, 1, 320, 64).bfloat16(),
        torch.randn(1, 1, 320, 64).bfloat16(),
    )
    # Each query has one outstanding key in each chunk, with nearly equal scores of some 64.
    k[0, 0, :16], k[0, 0, 300:316] = q[0, 0] / 18, q[0, 0] / 18 * 1.003
    return attention(q, k, v), torch.softmax(q.double() @ k.double().mT * 0.125, -1) @ v.double()
