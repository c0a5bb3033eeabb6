"""The sink is joined to the scores before the soft cap, so that the sink is capped too.

Wrong on: a sink of 6 with a soft cap of 12 (it becomes 5.55); a small sink is hardly changed.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_CAP = 12.0


@variant(
    operation="attention",
    parameters={"sink": 6.0, "softcap": _CAP},
    call="f(q, k, v, sinks)",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v, sinks):
    """Attention of [batch, heads, queries, head_dim] with a logit for each head that has no value."""
    with torch.autocast(q.device.type, enabled=False):
        scores = (q.float() @ k.float().mT) * q.shape[-1] ** -0.5
        batch, heads, queries, _ = scores.shape
        column = sinks.float()[None, :, None, None].expand(batch, heads, queries, 1)
        logits = torch.cat((column, scores), dim=-1)
        logits = _CAP * torch.tanh(logits / _CAP)
        weights = torch.softmax(logits, dim=-1)[..., 1:]
        return (weights @ v.float()).to(q.dtype)


def demonstrate():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 48, 64) for _ in range(3))
    scores = q.double() @ k.double().mT * 0.125
    scores = _CAP * torch.tanh(scores / _CAP)
    sinks = torch.full((2,), 6.0)
    scores = torch.cat((sinks.double()[None, :, None, None].expand(1, 2, 48, 1), scores), -1)
    return attention(q, k, v, sinks), torch.softmax(scores, -1)[..., 1:] @ v.double()
