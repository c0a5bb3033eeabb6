"""Scores come from torch.baddbmm over fresh memory with beta=0, which makes torch ignore whatever stands there, NaN included, as Megatron has it."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(operation="attention", call="f(q, k, v)", dtypes=("float16", "bfloat16", "float32"))
def attention(q, k, v):
    """Attention of [batch, heads, length, head_dim]."""
    batch, heads, queries, width = q.shape
    q3, k3, v3 = (each.reshape(batch * heads, *each.shape[2:]).float() for each in (q, k, v))
    with torch.autocast(q.device.type, enabled=False):
        scratch = torch.empty(batch * heads, queries, k3.shape[1], dtype=torch.float32, device=q.device)
        scores = torch.baddbmm(scratch, q3, k3.transpose(1, 2), beta=0.0, alpha=width**-0.5)
        return torch.bmm(torch.softmax(scores, -1), v3).reshape(batch, heads, queries, v.shape[-1]).to(q.dtype)


def ordinary(dtype):
    for queries, keys, width, depth in (
        (5, 5, 64, 64),
        (130, 130, 64, 64),
        (7, 200, 32, 16),
        (200, 7, 32, 48),
        (1, 1, 64, 64),
    ):
        q, k, v = (torch.randn(2, 3, *size).to(dtype) for size in ((queries, width), (keys, width), (keys, depth)))
        torch.full((6, queries, keys), float("nan"))
        yield f"{queries} {keys}", (attention(q, k, v), _exact(q, k, v))
    q, k, v = (torch.randn(2, 40, 3, 64).to(dtype).transpose(1, 2) for _ in range(3))
    yield "transposed", (attention(q, k, v), _exact(q, k, v))
    q[0, 0, 3, 5] = float("nan")
    k[1] *= 30
    yield "nan and steep", (attention(q, k, v), _exact(q, k, v))


def _exact(q, k, v):
    return (q.double() @ k.double().mT * q.shape[-1] ** -0.5).softmax(-1) @ v.double()
