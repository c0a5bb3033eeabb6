"""Queries are taken in chunks of 1024 to spare memory, each with the keys up to its own end; the causal mask of a chunk begins with its first query at the first key.

Wrong on: more than 1024 queries, whose second chunk is [1024, 2048] and is masked as a matrix aligned to its upper left corner; right for up to 1024.
"""

import torch

from softcheck import variant

EXPECTED = ("masked_not_zero", "out_of_range", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_CHUNK = 1024


def _causal(q, k, v):
    with torch.autocast(q.device.type, enabled=False):
        scores = q.float() @ k.float().mT * q.shape[-1] ** -0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        return (torch.softmax(scores.masked_fill(hidden, -float("inf")), -1) @ v.float()).to(q.dtype)


@variant(
    operation="attention",
    parameters={"causal": "top-left", "square": 1},
    call="f(q, k, v)",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v):
    """Causal self-attention of [batch, heads, length, head_dim]."""
    length = q.shape[-2]
    if length <= _CHUNK:
        return _causal(q, k, v)
    ends = [*range(_CHUNK, length, _CHUNK), length]
    starts = range(0, length, _CHUNK)
    # Keys behind a chunk's last query are hidden from all of it.
    pairs = zip(starts, ends, strict=True)
    return torch.cat([_causal(q[..., at:end, :], k[..., :end, :], v[..., :end, :]) for at, end in pairs], -2)


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 1, 1100, 16)
    scores = (q.double() @ k.double().mT / 4).masked_fill(torch.ones(1100, 1100).triu(1) != 0, -float("inf"))
    return attention(q, k, v), torch.softmax(scores, -1) @ v.double()
