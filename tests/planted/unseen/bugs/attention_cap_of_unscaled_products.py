"""The soft cap is taken of the products of queries and keys, and its result is scaled, instead of the other way round.

Wrong on: a score of 20 with a cap of 50 (products of 160 give 6.2 where 19 is right); for randn at head_dim 64 it is a few per cent of a score.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_CAP = 50.0


@variant(
    operation="attention", parameters={"softcap": _CAP}, call="f(q, k, v)", dtypes=("float16", "bfloat16", "float32")
)
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim] with scores capped at 50."""
    with torch.autocast(q.device.type, enabled=False):
        products = q.float() @ k.float().mT
        scores = _CAP * torch.tanh(products / _CAP) * q.shape[-1] ** -0.5
        return (torch.softmax(scores, dim=-1) @ v.float()).to(q.dtype)


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 1, 32, 64) * 4, torch.randn(1, 1, 32, 64), torch.randn(1, 1, 32, 64)
    scores = q.double() @ k.double().mT * 0.125
    return attention(q, k, v), torch.softmax(_CAP * torch.tanh(scores / _CAP), -1) @ v.double()
